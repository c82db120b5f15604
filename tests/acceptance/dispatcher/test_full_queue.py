"""Another client may keep a model's queue in Triton full. The jobs that wait for it are hardly tried meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from deploy.local.processes.ports import HOST
from deploy.local.stack import Stack
from tests.support.api.api_client import Api
from tests.support.api.model_inputs import work
from tests.support.stacks.own_dispatcher import replace_dispatcher
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


async def test_jobs_for_a_full_queue_are_seldom_tried(breakable: Stack, api: Api) -> None:
    async with replace_dispatcher(breakable) as dispatcher, hold_queue(breakable):
        jobs = [await api.submit(MODEL, work(0), retry=ONCE) for _ in range(JOBS)]
        ended = [await api.wait(job.id, within=60) for job in jobs]  # the other client's requests have ended by then
        labels = {"model": MODEL, "result": "returned"}
        tries = await read_metric(f"{dispatcher.url}/metrics", "charonia_attempts_total", **labels)
    assert [(job.status, job.attempt) for job in ended] == [("succeeded", 1)] * JOBS
    assert tries <= MOST_TRIES
    for job in jobs:
        assert [each.status for each in await api.list_attempts(job.id)] in (["succeeded"], ["returned", "succeeded"])
