"""A model's own queue may be full: that costs its jobs nothing, and fewer of them run at a time."""

import asyncio

from deploy.local.stack import Stack
from tests.acceptance.client import Api
from tests.acceptance.metrics import read_metric
from tests.acceptance.samples import work
from tests.acceptance.waiting import eventually

MODEL = "work_small"  # runs up to 4 requests at once and lets one wait
ONCE = {"max_attempts": 1}  # an attempt burnt would fail the job


async def test_a_full_queue_costs_no_attempt_and_lets_fewer_run_at_a_time(stack: Stack, api: Api) -> None:
    limit = f"{stack.dispatchers[0].url}/metrics", "charonia_slots_limit"
    full = await read_metric(*limit, model=MODEL)
    assert full == 1 * 4 * 2

    async def shrunk() -> bool:
        return await read_metric(*limit, model=MODEL) <= full / 2

    submitted = await asyncio.gather(*(api.submit(MODEL, work(1000), retry=ONCE) for _ in range(12)))
    await eventually(shrunk, "fewer run at a time")
    jobs = [await api.wait(job.id) for job in submitted]
    assert [(job.status, job.attempt) for job in jobs] == [("succeeded", 1)] * len(jobs)
    ends = {(each.status, each.error_code) for job in jobs for each in await api.list_attempts(job.id)}
    assert ends == {("returned", "triton_queue_full"), ("succeeded", None)}

    async def grown() -> bool:
        await api.run(MODEL, work(0))
        return await read_metric(*limit, model=MODEL) == full

    await eventually(grown, "as many run at a time as before", within=60)
