"""A tenant's jobs do not wait behind all that another one has queued."""

import asyncio
import statistics
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.acceptance.client import Api
from tests.acceptance.samples import work

FLOOD = 200  # jobs that wait before the first probe; more come as long as there are probes
FLOOD_MS = 150  # of each; eight run at a time, and eight more wait in Triton
MS = 200  # of a probe
PROBES = 16
PACE = 0.23  # seconds between two probes, so that they fall into all phases of a batch
AT_A_TIME = 16  # requests
CLIENTS = 3  # that go on


async def probe(api: Api) -> list[int]:
    """Milliseconds from submit to end, of one job after the other at a steady pace."""

    async def run() -> int:
        job = await api.run("work", work(MS))
        assert job.status == "succeeded"
        assert job.metrics.total_ms is not None
        return job.metrics.total_ms

    running = []
    for _ in range(PROBES):
        running.append(asyncio.create_task(run()))
        await asyncio.sleep(PACE)
    return list(await asyncio.gather(*running))


@asynccontextmanager
async def flooded(api: Api) -> AsyncIterator[list[str]]:
    """With a tenant's jobs coming faster than they are done; what is left of them at the end is canceled."""
    jobs: list[str] = []
    over = False

    async def flood(enough: int | None = None) -> None:
        while not over and (enough is None or len(jobs) < enough):
            jobs.append((await api.submit("work", work(FLOOD_MS))).id)

    async def cancel() -> None:
        while jobs:
            job = jobs.pop()
            answer = await api.http.post(f"/v1/jobs/{job}/cancel")
            assert answer.status_code in {200, 202, 409}, answer.text

    await asyncio.gather(*(flood(FLOOD) for _ in range(AT_A_TIME)))
    clients = [asyncio.create_task(flood()) for _ in range(CLIENTS)]
    try:
        yield jobs
    finally:
        over = True
        await asyncio.gather(*clients)
        await asyncio.gather(*(cancel() for _ in range(AT_A_TIME)))
        await api.run("work", work(1))  # behind what still runs


def p99(values: list[int]) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[98]


async def test_anothers_flood_does_not_triple_a_tenants_wait(api: Api, stranger: Api) -> None:
    alone = await probe(api)
    async with flooded(stranger) as flood:
        beside = await probe(api)
        assert (await stranger.get(flood[-CLIENTS])).status == "queued", "there was no flood any more"
    assert p99(beside) < 3 * p99(alone), (alone, beside)
