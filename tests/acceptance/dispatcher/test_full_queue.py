"""Another client may keep a model's queue in Triton full. The jobs that wait for it are hardly tried meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import httpx

from deploy.local.processes.ports import HOST
from deploy.local.stack import Stack
from tests.support.api.api_client import Api
from tests.support.api.model_inputs import work
from tests.support.telemetry.scraped_metrics import read_metric
from tests.support.waiting import eventually

MODEL = "work_small"  # runs up to 4 requests at once and lets one wait
ONCE = {"max_attempts": 1}  # a used attempt would fail the job
HELD_MS = 100_000  # the model needs a tenth of it
OTHERS = 8  # requests: the first batch, the one that waits, and some that are refused
JOBS = 10
MOST_TRIES = 20  # the first burst, and then ever fewer


@asynccontextmanager
async def hold_queue(stack: Stack) -> AsyncIterator[None]:
    """Keep the queue full from another client for at least ten seconds."""
    url = f"http://{HOST}:{stack.settings.triton_http_port}/v2/models/{MODEL}/infer"
    body = {"inputs": [{"name": "ms", "shape": [1, 1], "datatype": "INT32", "data": [HELD_MS]}]}
    async with httpx.AsyncClient(timeout=60) as triton:
        requests = [asyncio.create_task(triton.post(url, json=body)) for _ in range(OTHERS)]

        async def is_full() -> bool:
            return any(request.done() for request in requests)

        try:
            await eventually(is_full, "a request is refused")
            yield
        finally:
            for request in requests:
                request.cancel()
            await asyncio.wait(requests)


async def test_jobs_for_a_full_queue_are_seldom_tried_and_use_no_attempt(stack: Stack, api: Api) -> None:
    tries = partial(
        read_metric,
        f"{stack.dispatchers[0].url}/metrics",
        "charonia_attempts_total",
        model=MODEL,
        result="returned",
    )
    before = await tries()
    async with hold_queue(stack):
        jobs = [await api.submit(MODEL, work(0), retry=ONCE) for _ in range(JOBS)]
        ended = [await api.wait(job.id, within=60) for job in jobs]  # the other client's requests have ended by then
    assert 0 < await tries() - before <= MOST_TRIES
    assert [(job.status, job.attempt) for job in ended] == [("succeeded", 1)] * JOBS
    for job in jobs:
        *returned, last = [(each.status, each.error_code) for each in await api.list_attempts(job.id)]
        assert last == ("succeeded", None)
        assert returned in ([], [("returned", "triton_queue_full")])
