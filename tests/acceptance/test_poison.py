"""A job that kills Triton again and again fails by it, and takes no other job along."""

import asyncio

from deploy.local.stack import Stack
from tests.acceptance.client import Api
from tests.acceptance.collector import Collector, Span
from tests.acceptance.samples import fault, work
from tests.acceptance.tree import check, draw
from tests.acceptance.waiting import eventually

ONCE = {"max_attempts": 1}  # an attempt burnt would fail the job
RETURNED = 3  # attempts that Triton's end does not count, for each job


async def test_a_job_that_kills_triton_fails_and_takes_no_other_along(
    breakable: Stack, api: Api, collector: Collector
) -> None:
    # They take so long that they run whenever Triton is killed.
    beside = [await api.submit("work", work(1000), retry=ONCE) for _ in range(2)]
    beside.append(await api.submit("tokens", {"text": ["two words"], "delay_ms": [500]}, retry=ONCE))
    for job in beside:
        await api.wait(job.id, "processing")
    poison = await api.submit("faulty", fault("crash_server"), retry=ONCE)
    behind = [await api.submit("faulty", fault("ok"), retry=ONCE) for _ in range(3)]
    behind += [await api.submit("echo", {"x": [[1.0]]}, retry=ONCE) for _ in range(3)]
    for _ in range(RETURNED + 1):
        await revive_triton(breakable)

    dead = await api.wait(poison.id)
    assert (dead.status, dead.attempt, dead.error and dead.error.code) == ("failed", 1, "triton_unavailable")
    *before, last = [each.status for each in await api.list_attempts(poison.id)]
    assert (set(before), last) == ({"returned"}, "failed")
    listed = await api.http.get("/v1/dead-letters", params={"model": "faulty", "error": "triton_unavailable"})
    assert [job["id"] for job in listed.json()["items"]] == [poison.id]
    others = [await api.wait(job.id) for job in (*beside, *behind)]
    ends = [(job.status, job.attempt, job.error and job.error.code) for job in others]
    assert ends == [("succeeded", 1, None)] * len(others)
    assert breakable.triton.process.running
    await check_trace(collector, dead.trace_id)


async def check_trace(collector: Collector, trace_id: str) -> None:
    """Each attempt is in it, with what came of it and why; some ran by the doorbells of other jobs."""

    async def look() -> list[Span] | None:
        spans = collector.trace(trace_id)
        return spans if "process notifier.events" in {span.name for span in spans} else None

    spans = await eventually(look, "the dead letter's end is in its trace")
    check(spans)
    assert "ORPHAN" not in draw(spans)
    tries = sorted((span for span in spans if span.name == "process jobs.faulty"), key=lambda span: span.start)
    *before, last = [(each.attributes["charonia.outcome"], each.attributes["error.type"]) for each in tries]
    assert set(before) == {("given_back", "triton_unavailable")}
    assert last == ("failed", "triton_unavailable")
    inferred = {span.parent for span in spans if span.name == "infer faulty" and span.failed}
    assert inferred == {span.id for span in tries}


async def revive_triton(stack: Stack) -> None:
    """Starts it again once it has been killed, as a supervisor would."""

    async def look() -> bool:
        return not stack.triton.process.running

    await eventually(look, "Triton is killed")
    await asyncio.to_thread(stack.triton.start)
