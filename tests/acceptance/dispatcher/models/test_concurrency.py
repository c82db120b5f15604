"""A model's queue in Triton may be full. Its jobs lose no attempt, and fewer of them run at once."""

import asyncio

from deploy.local.stack import Stack
from tests.support.api.api_client import Api
from tests.support.api.model_inputs import work
from tests.support.telemetry.scraped_metrics import read_metric
from tests.support.waiting import eventually

MODEL = "work_small"  # runs up to 4 requests at once and lets one wait
JOB_MS = 20_000  # the model takes a tenth of it: long enough that all jobs meet in Triton, and the limit stays low
FULL = 1 * 4 * 2  # instances, requests at once, and as many more while inferences are quick
ONCE = {"max_attempts": 1}  # a used attempt would fail the job


async def test_full_triton_queue_uses_no_attempt_and_lowers_concurrency(stack: Stack, api: Api) -> None:
    limit = f"{stack.dispatchers[0].url}/metrics", "charonia_slots_limit"

    async def has_shrunk() -> bool:
        return await read_metric(*limit, model=MODEL) <= FULL / 2

    async def has_grown() -> bool:
        await api.run(MODEL, work(0))
        return await read_metric(*limit, model=MODEL) == FULL

    await eventually(has_grown, "concurrency is at its limit, whatever ran before", within=60)
    submitted = await asyncio.gather(*(api.submit(MODEL, work(JOB_MS), retry=ONCE) for _ in range(12)))
    await eventually(has_shrunk, "concurrency is lower")
    jobs = [await api.wait(job.id) for job in submitted]
    assert [(job.status, job.attempt) for job in jobs] == [("succeeded", 1)] * len(jobs)
    ends = {(each.status, each.error_code) for job in jobs for each in await api.list_attempts(job.id)}
    assert ends == {("returned", "triton_queue_full"), ("succeeded", None)}
    await eventually(has_grown, "concurrency is back at its limit", within=60)
