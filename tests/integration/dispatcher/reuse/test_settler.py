"""What becomes of those that wait when their twin ends, or does not."""

from collections import Counter
from typing import Any
from uuid import UUID

import pytest

from common.job_states import Priority, Status
from common.jobs.requeue import requeue_jobs
from common.postgres.database import Database
from services.dispatcher.reuse import takers
from services.gateway.jobs.actions.erasure import Eraser
from tests.integration.job_actions import new_canceler
from tests.integration.jobs import add_tenant, claim, look, new_requeue, take
from tests.integration.reuse import Sharers


@pytest.fixture
async def sharers(database: Database, tenant: UUID) -> Sharers:
    sharers = Sharers(database, tenant)
    await sharers.offer()
    return sharers


async def count(sharers: Sharers) -> Counter[str]:
    return Counter((await sharers.states()).values())


async def test_pages_follow_each_other(sharers: Sharers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(takers, "PAGE_JOBS", 2)
    for _ in range(6):
        await sharers.submit()
    await sharers.run()
    assert await count(sharers) == {"succeeded": 6}


@pytest.mark.parametrize(
    "changes",
    [
        {"status": Status.FAILED, "outputs": None},
        {"load_id": None},
    ],
)
async def test_the_oldest_runs_if_the_twin_has_no_result(sharers: Sharers, changes: dict[str, Any]) -> None:
    jobs = [await sharers.submit() for _ in range(3)]
    first = await sharers.run(**changes)
    assert first.id == jobs[0].row.id
    second = await sharers.run()
    assert second.id == jobs[1].row.id
    assert second.claim == 2  # after that of the first
    states = await sharers.states()
    assert [states[job.row.id] for job in jobs[1:]] == ["succeeded"] * 2


async def test_a_canceled_twin_is_replaced_by_the_sweep(sharers: Sharers) -> None:
    jobs = [await sharers.submit() for _ in range(3)]
    canceler = new_canceler(sharers.database, sharers.wake_ups, sharers.settler._changes)
    await canceler.cancel(sharers.tenant, jobs[0].row.id)
    assert await sharers.sweep() >= 0.5
    assert await count(sharers) == {"canceled": 1, "queued": 1, "waits": 1}
    await sharers.sweep()
    assert await count(sharers) == {"canceled": 1, "queued": 1, "waits": 1}
    assert (await sharers.run()).id == jobs[1].row.id
    assert await count(sharers) == {"canceled": 1, "succeeded": 2}


async def test_a_twin_that_is_canceling_is_replaced(sharers: Sharers) -> None:
    first, second = await sharers.submit(), await sharers.submit()
    await claim(sharers.database, first.row.id)
    canceler = new_canceler(sharers.database, sharers.wake_ups, sharers.settler._changes)
    await canceler.cancel(sharers.tenant, first.row.id)
    await sharers.sweep()
    assert await sharers.states() == {first.row.id: "canceling", second.row.id: "queued"}


async def test_the_sweep_gives_a_result_that_nobody_settled(sharers: Sharers) -> None:
    first, second = await sharers.submit(), await sharers.submit()
    await sharers.run(settles=False)
    assert (await sharers.states())[second.row.id] == "waits"
    await sharers.sweep()
    assert set((await sharers.states()).values()) == {"succeeded"}
    assert (await look(sharers.database, second.row.id)).claim == (await look(sharers.database, first.row.id)).claim


async def test_an_erased_twin_gives_nothing(sharers: Sharers) -> None:
    first, second = await sharers.submit(), await sharers.submit()
    await sharers.run(settles=False)
    assert await Eraser(sharers.database).erase(sharers.tenant, first.row.id)
    await sharers.sweep()
    assert (await sharers.states())[second.row.id] == "queued"


async def test_after_the_erasure_of_a_job_that_took_a_result_the_next_one_runs(sharers: Sharers) -> None:
    await sharers.submit()
    await sharers.run()
    hit = await sharers.submit()
    assert await Eraser(sharers.database).erase(sharers.tenant, hit.row.id)
    assert (await sharers.submit()).row.status is Status.QUEUED
    await sharers.run()
    assert (await sharers.submit()).row.status is Status.SUCCEEDED


async def test_the_sweep_goes_through_many_groups(sharers: Sharers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.dispatcher.reuse.sweeper.BATCH", 2)
    for number in range(5):
        for _ in range(2):
            await sharers.submit(inputs={"x": [float(number)]})
    await sharers.database.fetch("DELETE FROM jobs WHERE scheduled_at IS NULL")
    for _ in range(3):
        await sharers.sweep()
    assert await count(sharers) == {"queued": 5}


async def test_jobs_of_a_model_that_is_gone_end_together(sharers: Sharers) -> None:
    for _ in range(3):
        await sharers.submit()
    await sharers.database.fetch("DELETE FROM served_models")
    await sharers.run(status=Status.FAILED, outputs=None)
    assert await count(sharers) == {"failed": 1, "queued": 2}
    assert await sharers.database.fetch("SELECT FROM live_jobs WHERE reuse_key IS NOT NULL") == []


async def test_a_twin_that_waits_again_is_lifted(sharers: Sharers) -> None:
    """Those that came while it ran need it earlier than it would run."""
    await sharers.submit(priority="low")
    (twin,) = await take(sharers.database, priority=Priority.LOW)
    await sharers.submit(priority="high", expires_in=30)
    await requeue_jobs(sharers.database, [new_requeue(twin, delay=60.0)])
    sharers.unsettled.note([twin.reuse])
    await sharers.settle()
    (row,) = await sharers.database.fetch(
        "SELECT priority, scheduled_at <= now() AS due FROM jobs WHERE id = $1", twin.id
    )
    assert tuple(row) == ("high", True)


async def test_a_large_group_does_not_keep_those_of_others_waiting(
    sharers: Sharers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(takers, "PAGE_JOBS", 2)
    other = Sharers(sharers.database, await add_tenant(sharers.database, "other"))
    for _ in range(9):
        await sharers.submit()
    first, second = await sharers.submit(tenant=other.tenant), await sharers.submit(tenant=other.tenant)
    jobs = await take(sharers.database, 2)
    for job in jobs:
        await sharers.end(job, settles=False)
    sharers.unsettled.note(job.reuse for job in jobs)
    await sharers.settler.settle(await sharers.unsettled.take(2))
    states = await sharers.states()
    assert (states[first.row.id], states[second.row.id]) == ("succeeded", "succeeded")
    assert (await count(sharers))["waits"] > 0
    await sharers.settle()
    assert (await count(sharers))["waits"] == 0
