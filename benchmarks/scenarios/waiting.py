"""Thousands of clients that stream the events of jobs from one gateway.

Memory in MB, for each client in KB; CPU in ms per second; latencies in ms, from a cancel to the client.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import Any

import aiohttp

from benchmarks.harness.bench import Bench, Scenario
from benchmarks.harness.processes import read_memory
from benchmarks.harness.report import Figures, percentiles, with_prefix
from deploy.local.services import DEVELOPMENT_KEY

CLIENTS = 5_000
CANCELED = 200  # of the jobs that are waited for
AT_A_TIME = 50  # connections opened, and jobs submitted
HEADERS = {"Authorization": f"Bearer {DEVELOPMENT_KEY}"}
STREAM = {"Accept": "text/event-stream"}


class Crowd:
    """The clients. Each stream has a connection of its own."""

    def __init__(self) -> None:
        self._http = aiohttp.ClientSession()
        self._streams: dict[str, aiohttp.ClientResponse] = {}  # by job

    async def submit(self, url: str, count: int) -> list[str]:
        """Close all connections, and submit jobs that run in an hour to this gateway."""
        for stream in self._streams.values():
            stream.close()
        await self._http.close()
        unlimited = aiohttp.TCPConnector(limit=0)
        self._http = aiohttp.ClientSession(url, headers=HEADERS, connector=unlimited, timeout=aiohttp.ClientTimeout())
        run_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
        body = {"model": "echo", "inputs": {"x": [[1.0]]}, "run_at": run_at}
        self._streams, jobs = {}, list[str]()
        while len(jobs) < count:
            jobs += await asyncio.gather(*(self._post("/v1/jobs", body) for _ in range(AT_A_TIME)))
        return jobs

    async def open(self, jobs: Sequence[str]) -> None:
        """Open a stream for each job; return when the gateway has all of them."""
        for first in range(0, len(jobs), AT_A_TIME):
            some = jobs[first : first + AT_A_TIME]
            self._streams |= zip(some, await asyncio.gather(*map(self._stream, some)), strict=True)

    async def cancel(self, count: int) -> list[float]:
        """Cancel jobs; return the milliseconds from each cancel's response until the client knows."""
        late = []
        for _ in range(count):
            job, stream = self._streams.popitem()
            end = asyncio.create_task(_read_until_canceled(stream))
            await self._post(f"/v1/jobs/{job}/cancel")
            answered = time.perf_counter()
            late.append((await end - answered) * 1000)
        return late

    async def _post(self, path: str, body: dict[str, Any] | None = None) -> str:
        """Return the job's id."""
        async with self._http.post(path, json=body, raise_for_status=True) as response:
            return str((await response.json())["id"])

    async def _stream(self, job: str) -> aiohttp.ClientResponse:
        return await self._http.get(f"/v1/jobs/{job}/events", headers=STREAM, raise_for_status=True)


async def _read_until_canceled(stream: aiohttp.ClientResponse) -> float:
    """Return when the event arrived, by time.perf_counter()."""
    async for line in stream.content:
        if line.startswith(b"event: job.canceled"):
            return time.perf_counter()
    raise ConnectionError("the stream ended before its job did")


def measure(bench: Bench) -> Iterator[Figures]:
    crowd, gateway = bench.child("crowd"), bench.stack.gateways[0]
    crowd.call(Crowd.open, jobs=crowd.call(Crowd.submit, url=gateway.url, count=AT_A_TIME))
    while True:
        jobs = crowd.call(Crowd.submit, url=gateway.url, count=CLIENTS)
        figures = with_prefix("idle", bench.measure_idle(bench.seconds, "crowd"))
        pid = gateway.process.pid or 0
        memory, begin = read_memory(pid), time.perf_counter()
        crowd.call(Crowd.open, jobs=jobs)
        figures["stream.open"] = time.perf_counter() - begin
        figures |= with_prefix("stream", bench.measure_idle(bench.seconds, "crowd"))
        grown = read_memory(pid) - memory
        figures |= {"stream.memory": grown, "stream.each": grown * 1000 / CLIENTS}
        yield figures | percentiles("stream.told", crowd.call(Crowd.cancel, count=CANCELED))


SCENARIO = Scenario(measure, {"crowd": CLIENTS})
