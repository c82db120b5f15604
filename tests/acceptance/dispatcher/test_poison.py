"""A job that kills Triton or dispatchers again and again fails. No other job fails because of it."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from common import ids
from deploy.local.stack import Stack
from services.dispatcher.failures.retry_policy import MAX_INTERRUPTIONS, find_probation
from tests.acceptance.conftest import open_client
from tests.support.api.api_client import Api, Job
from tests.support.api.model_inputs import fault, work
from tests.support.api.tenants import make_tenant
from tests.support.telemetry.otlp_collector import Collector, Span
from tests.support.telemetry.trace_tree import check_spans, render_tree
from tests.support.waiting import eventually

ONCE = {"max_attempts": 1}  # a used attempt would fail the job
RETURNED = MAX_INTERRUPTIONS  # attempts of a job that do not count


@pytest.fixture
async def api(stack: Stack) -> AsyncIterator[Api]:
    """A client of a new tenant. One whose jobs failed like this before is on probation: its next fails earlier."""
    async with open_client(stack, await make_tenant(stack, "poison")) as client:
        yield client


async def test_job_that_kills_triton_fails_without_failing_others(
    supervised: Stack, api: Api, collector: Collector
) -> None:
    # These jobs are long enough to run whenever Triton dies, unless the machine stands still meanwhile.
    running = [await api.submit("work", work(1000), retry=ONCE) for _ in range(2)]
    running.append(await api.submit("tokens", {"text": ["two words"], "delay_ms": [500]}, retry=ONCE))
    for job in running:
        await api.wait(job.id, "processing", "succeeded")
    poison = await api.submit("faulty", fault("crash_server"), retry=ONCE)
    queued = [await api.submit("faulty", fault("ok"), retry=ONCE) for _ in range(3)]
    queued += [await api.submit("echo", {"x": [[1.0]]}, retry=ONCE) for _ in range(3)]
    failed = await api.wait(poison.id, within=120)
    assert (failed.status, failed.attempt, failed.error and failed.error.code) == ("failed", 1, "triton_unavailable")
    *before, last = [each.status for each in await api.list_attempts(poison.id)]
    assert (set(before), last) == ({"returned"}, "failed")
    listed = await api.http.get("/v1/dead-letters", params={"model": "faulty", "error": "triton_unavailable"})
    assert [job["id"] for job in listed.json()["items"]] == [poison.id]
    others = [await api.wait(job.id, within=60) for job in (*running, *queued)]
    ends = [(job.status, job.attempt, job.error and job.error.code) for job in others]
    assert ends == [("succeeded", 1, None)] * len(others)
    await check_trace(collector, failed.trace_id)


async def test_fresh_poison_of_one_tenant_fails_no_job_of_another(
    supervised: Stack, api: Api, other_tenant: Api
) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=2)
    innocent = await other_tenant.submit("work", work(12_000), retry=ONCE, run_at=soon.isoformat())
    await interrupt(supervised, innocent, MAX_INTERRUPTIONS)
    await other_tenant.wait(innocent.id, "processing", within=60)  # it is a suspect
    poison = await api.submit("faulty", fault("crash_server"), retry=ONCE)
    failed = await api.wait(poison.id, "failed", within=240)
    assert failed.error is not None
    assert failed.error.code == "triton_unavailable"
    ended = await other_tenant.wait(innocent.id, within=240)
    assert (ended.status, ended.attempt, ended.error) == ("succeeded", 1, None)


async def test_job_that_kills_dispatchers_fails_without_failing_others(breakable: Stack, api: Api) -> None:
    """Nothing in a job can kill a dispatcher, so the test does it whenever the job runs."""
    dispatcher = breakable.dispatchers[0]
    others = [await api.submit("work", work(1500), retry=ONCE) for _ in range(3)]
    soon = datetime.now(UTC) + timedelta(seconds=2)
    poison = await api.submit("faulty", fault("hang", 5000), retry=ONCE, run_at=soon.isoformat())
    await interrupt(breakable, poison, RETURNED - 1)  # each further one takes a new dispatcher
    kills = 0
    while (await api.wait(poison.id, "processing", "failed", within=60)).status == "processing":
        await asyncio.to_thread(dispatcher.kill)
        await asyncio.to_thread(dispatcher.launch)
        kills += 1
        await wait_for_requeue(api, poison.id, kills)
    failed = await api.get(poison.id)
    assert (failed.attempt, failed.error and failed.error.code, kills) == (1, "worker_lost", 2)
    attempts = [(each.status, each.error_code) for each in await api.list_attempts(poison.id)]
    assert attempts == [("returned", "worker_lost"), ("failed", "worker_lost")]
    ends = [await api.wait(job.id, within=60) for job in others]
    assert [(job.status, job.attempt, job.error) for job in ends] == [("succeeded", 1, None)] * len(others)


async def interrupt(stack: Stack, job: Job, count: int) -> None:
    """Let a job that waits have been interrupted this often, as if Triton had died each time."""
    connection = await asyncpg.connect(stack.postgres.url)
    try:
        changed = await connection.execute(
            "UPDATE live_jobs SET interruptions = $2, probation = $3 WHERE id = $1 AND status = 'queued'",
            ids.parse(ids.Kind.JOB, job.id),
            count,
            find_probation(count),
        )
    finally:
        await connection.close()
    assert changed == "UPDATE 1"


async def wait_for_requeue(api: Api, job: str, attempts: int) -> None:
    async def poll() -> bool:
        return len(await api.list_attempts(job)) >= attempts  # one that finds no Triton is returned, too

    await eventually(poll, f"attempt {attempts} has ended", within=120)


async def check_trace(collector: Collector, trace_id: str) -> None:
    """Check that the trace has every attempt, with its outcome and error.

    Some attempts run by the wake-ups of other jobs.
    """

    async def poll() -> list[Span] | None:
        """The dispatcher may export the last attempt later than the notifier its event."""
        spans = collector.trace(trace_id)
        outcomes = {span.attributes.get("charonia.outcome") for span in spans if span.name == "process jobs.faulty"}
        has_event = "process notifier.events" in {span.name for span in spans}
        return spans if has_event and "failed" in outcomes else None

    spans = await eventually(poll, "the end of the job is in its trace")
    check_spans(spans)
    assert "ORPHAN" not in render_tree(spans)
    attempts = sorted((span for span in spans if span.name == "process jobs.faulty"), key=lambda span: span.start)
    *before, last = [(each.attributes["charonia.outcome"], each.attributes["error.type"]) for each in attempts]
    assert set(before) == {("given_back", "triton_unavailable")}
    assert last == ("failed", "triton_unavailable")
    failed_inferences = {span.parent for span in spans if span.name == "infer faulty" and span.failed}
    assert failed_inferences == {span.id for span in attempts}
