"""Submits that ask the same: hits, joins, and what does not share."""

import asyncio
import base64
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from common import ids
from common.job_states import Status
from common.postgres.database import Database
from services.gateway.http.problems import Problem
from services.gateway.jobs.actions.erasure import Eraser
from services.gateway.jobs.idempotency.store import RequestKey
from services.gateway.jobs.store import JobStore
from services.gateway.jobs.wait_reasons import explain_twin
from tests.integration.jobs import add_tenant
from tests.integration.reuse import RAW, RESULT, Sharers


@pytest.fixture
async def sharers(database: Database, tenant: UUID) -> Sharers:
    sharers = Sharers(database, tenant)
    await sharers.offer()
    return sharers


async def test_many_at_once_over_two_gateways_run_once(sharers: Sharers) -> None:
    jobs = await asyncio.gather(*(sharers.submit(number % 2) for number in range(40)))
    assert Counter((await sharers.states()).values()) == {"queued": 1, "waits": 39}
    maker = await sharers.run()
    assert set((await sharers.states()).values()) == {"succeeded"}
    rows = await sharers.database.fetch("SELECT id, reused_from, outputs, worker FROM jobs")
    assert {row["id"] for row in rows} == {job.row.id for job in jobs}
    assert {row["outputs"] for row in rows} == {RESULT}
    assert [row["id"] for row in rows if row["reused_from"] is None] == [maker.id]
    assert {row["reused_from"] for row in rows} == {maker.id, None}
    assert len(await sharers.database.fetch("SELECT DISTINCT job_id FROM events WHERE type = 'job.succeeded'")) == 40


async def test_a_job_that_waits_says_for_which(sharers: Sharers) -> None:
    first, second = await sharers.submit(), await sharers.submit()
    found = await JobStore(sharers.database).find_job(second.row.id, sharers.tenant)
    assert found is not None
    assert found.queue_position is None
    reason = explain_twin(found.row)
    assert reason is not None
    assert (reason.code, reason.job) == ("same_job", ids.encode(ids.Kind.JOB, first.row.id))


async def test_a_hit_ends_at_its_submit_with_its_own_event(sharers: Sharers) -> None:
    await sharers.submit()
    maker = await sharers.run()
    sharers.wake_ups.take()
    hit = await sharers.submit(1, metadata={"own": 1}, webhook={"url": "https://example.com/", "events": ["job.*"]})
    assert (hit.row.status, hit.row.reused_from, hit.outputs) == (Status.SUCCEEDED, maker.id, RESULT)
    (event,) = await sharers.database.fetch("SELECT body, callback_url FROM events WHERE job_id = $1", hit.row.id)
    data = msgspec.json.decode(event["body"])["data"]
    assert (data["id"], data["metadata"], data["status"]) == (
        ids.encode(ids.Kind.JOB, hit.row.id),
        {"own": 1},
        "succeeded",
    )
    assert data["reused_from"] == ids.encode(ids.Kind.JOB, maker.id)
    assert data["outputs"][0]["data"] == [2.0]
    assert event["callback_url"] == "https://example.com/"
    assert len(sharers.wake_ups.take()) == 1  # of the event
    assert len(await sharers.states()) == 2


@pytest.mark.parametrize(
    "body",
    [
        {"inputs": {"x": {"base64": base64.b64encode(RAW).decode()}}},
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1.0]}]},
        {"priority": "high", "timeout": 5, "metadata": {"a": 1}, "retain": 100.0},
        {"run_at": "2020-01-01T00:00:00Z"},
    ],
)
async def test_another_form_of_the_same_question_is_a_hit(sharers: Sharers, body: dict[str, Any]) -> None:
    await sharers.submit()
    await sharers.run()
    assert (await sharers.submit(**body)).row.status is Status.SUCCEEDED


@pytest.mark.parametrize(
    "body",
    [
        {"inputs": {"x": [2.0]}},
        {"parameters": {"a": 1}},
        {"version": "1"},
        {"reuse": None},
        {"reuse": "absent"},
        {"reuse": {"max_age": 0}},
        {"run_at": (datetime.now(UTC) + timedelta(hours=1)).isoformat()},
    ],
)
async def test_what_differs_or_does_not_want_it_runs(sharers: Sharers, body: dict[str, Any]) -> None:
    await sharers.submit()
    await sharers.run()
    assert (await sharers.submit(**body)).row.status is Status.QUEUED
    assert "waits" not in (await sharers.states()).values()


async def test_another_tenant_runs_itself(sharers: Sharers) -> None:
    await sharers.submit()
    await sharers.run()
    other = await add_tenant(sharers.database, "other")
    assert (await sharers.submit(tenant=other)).row.status is Status.QUEUED
    assert "waits" not in (await sharers.states()).values()


async def test_another_load_is_another_model(sharers: Sharers) -> None:
    await sharers.submit()
    await sharers.run()
    await sharers.offer()
    assert (await sharers.submit()).row.status is Status.QUEUED
    assert "waits" not in (await sharers.states()).values()
    await sharers.run()
    assert (await sharers.submit(1)).row.status is Status.SUCCEEDED


async def test_a_gateway_that_knows_only_the_load_before_runs_nothing_again(sharers: Sharers) -> None:
    await sharers.submit()
    await sharers.run()
    before = sharers.gateways
    await sharers.offer()
    await sharers.submit()
    await sharers.run()
    sharers.gateways = before
    assert (await sharers.submit()).row.status is Status.SUCCEEDED


async def test_a_model_has_a_default_and_may_refuse(sharers: Sharers) -> None:
    await sharers.offer(**{"charonia.reuse_seconds": "60"})
    await sharers.submit(reuse="absent")
    await sharers.run()
    assert (await sharers.submit(reuse="absent")).row.status is Status.SUCCEEDED
    assert (await sharers.submit(reuse=None)).row.status is Status.QUEUED
    load = sharers.load
    await sharers.offer(**{"charonia.reuse_seconds": "0"})
    await sharers.database.fetch("UPDATE served_models SET load_id = $1", load)
    assert (await sharers.submit()).row.status is Status.QUEUED


async def test_an_unknown_load_shares_nothing(sharers: Sharers) -> None:
    await sharers.database.fetch("UPDATE served_models SET load_id = NULL")
    await sharers.submit()
    assert not await sharers.database.fetch("SELECT FROM jobs WHERE reuse_key IS NOT NULL")


@pytest.mark.parametrize("erased", ["maker", "sharer"])
async def test_a_remembered_result_that_another_gateway_erased_is_not_taken(sharers: Sharers, erased: str) -> None:
    maker = (await sharers.submit()).row.id
    await sharers.run()
    for _ in range(2):
        sharer = (await sharers.submit()).row.id
    assert await Eraser(sharers.database).erase(sharers.tenant, {"maker": maker, "sharer": sharer}[erased])
    assert (await sharers.submit()).row.status is Status.QUEUED
    assert "waits" not in (await sharers.states()).values()


async def test_a_repeated_request_is_no_second_hit(sharers: Sharers) -> None:
    await sharers.submit()
    await sharers.run()
    first, again = [await sharers.submit(request_key=RequestKey("once", bytes(32))) for _ in range(2)]
    assert (first.replayed, again.replayed, again.row.id) == (False, True, first.row.id)
    assert (first.row.status, again.row.status) == (Status.SUCCEEDED, Status.SUCCEEDED)


async def test_of_repeated_requests_at_once_none_is_refused(sharers: Sharers) -> None:
    await sharers.submit()
    await sharers.run()
    await sharers.database.fetch("UPDATE tenants SET max_queued = 1")
    await sharers.submit(reuse=None)
    sharers.restart()
    key = RequestKey("once", bytes(32))
    jobs = await asyncio.gather(*(sharers.submit(number % 2, request_key=key) for number in range(10)))
    assert len({job.row.id for job in jobs}) == 1
    assert {job.row.status for job in jobs} == {Status.SUCCEEDED}


async def test_a_hit_takes_no_room_in_the_queue(sharers: Sharers) -> None:
    await sharers.submit()
    await sharers.run()
    await sharers.database.fetch("UPDATE tenants SET max_queued = 1")
    await sharers.submit(reuse=None)
    sharers.restart()
    assert (await sharers.submit()).row.status is Status.SUCCEEDED
    with pytest.raises(Problem):
        await sharers.submit(inputs={"x": [5.0]})


async def test_a_tenant_that_may_submit_nothing_takes_no_result(sharers: Sharers) -> None:
    await sharers.submit()
    await sharers.run()
    await sharers.database.fetch("UPDATE tenants SET max_queued = 0")
    sharers.restart()
    with pytest.raises(Problem) as caught:
        await sharers.submit()
    assert caught.value.code == "queue_full"


async def test_a_job_of_a_higher_priority_lifts_its_twin(sharers: Sharers) -> None:
    first = await sharers.submit(reuse={"max_age": 0})
    assert first.row.status is Status.QUEUED
    joined = await sharers.submit(1, priority="high")
    assert joined.row.status is Status.QUEUED
    lifted = await sharers.database.fetch("SELECT priority FROM jobs WHERE id = $1", first.row.id)
    assert lifted[0]["priority"] == "high"


async def test_a_deadline_lifts_a_twin_that_backs_off_beyond_it(sharers: Sharers) -> None:
    first = await sharers.submit(reuse={"max_age": 0})
    await sharers.database.fetch("UPDATE jobs SET scheduled_at = now() + interval '1 minute'")
    for seconds, is_due in ((90, False), (30, True)):
        await sharers.submit(1, expires_in=seconds)
        rows = await sharers.database.fetch("SELECT scheduled_at <= now() AS due FROM jobs WHERE id = $1", first.row.id)
        assert [row["due"] for row in rows] == [is_due]
