"""The process that records a result counts it once."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from common.postgres.database import Database
from common.telemetry.metrics import PIPELINES
from tests.integration.jobs import claim, lapse, submit
from tests.integration.runs import Runs
from tests.integration.world import Action, World
from tests.support.telemetry.process_metrics import Counts, count


@pytest.fixture
async def world(database: Database, tenant: UUID) -> World:
    world = World(database, tenant)
    await world.begin()
    return world


@pytest.mark.parametrize(
    ("action", "result", "ended"),
    [
        ("succeed", "succeeded", "succeeded"),
        ("fail", "failed", None),
        ("refuse", "failed", "failed"),
        ("interrupt", "returned", None),
        ("crowd", "returned", None),
    ],
)
async def test_an_attempt_counts_by_its_result(world: World, action: Action, result: str, ended: str | None) -> None:
    job = await claim(world.database, await submit(world.database, world.tenant))
    counts = Counts()
    await world.act(job, action)
    await world.act(job, action)  # too late, so it does not count
    expected = {("charonia_attempts_total", result): 1.0}
    if ended:
        expected |= {("charonia_jobs_ended_total", ended): 1.0}
    assert counts.since("charonia_attempts_total", "charonia_jobs_ended_total") == expected


async def test_a_lapsed_lease_and_the_attempt_under_it_count(world: World) -> None:
    job = await claim(world.database, await submit(world.database, world.tenant))
    await lapse(world.database, job.id)
    counts = Counts()
    await world.sweep()
    assert counts.since("charonia_leases_lapsed_total", "charonia_attempts_total") == {
        ("charonia_leases_lapsed_total", ""): 1.0,
        ("charonia_attempts_total", "returned"): 1.0,
    }


async def test_a_job_that_never_began_is_counted_by_the_process_that_ends_it(world: World) -> None:
    """The gateway counts a cancel, and the sweeper counts an expiry."""
    canceled = await submit(world.database, world.tenant)
    await submit(world.database, world.tenant, expires_in=10.0)
    counts = Counts()
    await world.cancel(canceled)
    await world.pass_time(20.0)
    await world.sweep()
    assert counts.since("charonia_jobs_ended_total", "charonia_attempts_total") == {
        ("charonia_jobs_ended_total", "canceled"): 1.0,
        ("charonia_jobs_ended_total", "expired"): 1.0,
    }


async def test_a_running_job_counts_as_canceled_once(world: World) -> None:
    job = await claim(world.database, await submit(world.database, world.tenant))
    counts = Counts()
    await world.cancel(job.id)
    assert counts.since("charonia_jobs_ended_total") == {}
    await world.recorder.cancel(job, datetime.now(UTC), "")
    assert counts.since("charonia_jobs_ended_total") == {("charonia_jobs_ended_total", "canceled"): 1.0}


async def test_each_end_of_a_run_counts_once_as_that_of_a_pipeline(world: World) -> None:
    runs, statuses = Runs(world), ("succeeded", "failed", "canceled")
    before = [count("charonia_jobs_ended_total", model=PIPELINES, status=status) or 0.0 for status in statuses]
    await runs.infer(await runs.begin(1, pipeline="single"), "first")
    await world.cancel(await runs.begin(1, pipeline="single"))
    await runs.begin(1, pipeline="single")
    await world.pass_time(61)
    await runs.end_overdue()
    after = [count("charonia_jobs_ended_total", model=PIPELINES, status=status) or 0.0 for status in statuses]
    assert [now - then for now, then in zip(after, before, strict=True)] == [1.0, 1.0, 1.0]
    assert count("charonia_jobs_ended_total", model="single", status="succeeded") is None
