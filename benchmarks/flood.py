"""`python -m benchmarks.flood <url> <key>`: one tenant's jobs for `work`, many at once or at a steady pace."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from benchmarks.driver import Answering, serve

AT_A_TIME = 32  # requests of a flood
LOOK = 0.2  # seconds between two looks
PATIENCE = 120.0  # seconds until a job counts as lost
ENDED = {"succeeded", "failed", "canceled", "expired"}


class Flood:
    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        match question["kind"]:
            case "flood":
                return await self._flood(question["jobs"], question["ms"])
            case "batch":
                return await self._submit_batch(question["jobs"], question["ms"])
            case "probe":
                return await self._probe(question["rate"], question["seconds"], question["ms"])
            case _:
                return {"left": await self._count_left(question["within"])}

    async def _flood(self, jobs: int, ms: int) -> dict[str, Any]:
        numbers = iter(range(jobs))
        begin = time.perf_counter()

        async def work() -> None:
            for _ in numbers:
                await self._submit(ms)

        await asyncio.gather(*(work() for _ in range(AT_A_TIME)))
        return {"rate": jobs / (time.perf_counter() - begin)}

    async def _submit_batch(self, jobs: int, ms: int) -> dict[str, Any]:
        begin = time.perf_counter()
        async with self._session.post("/v1/batches", json=[build(ms)] * jobs) as answer:
            answer.raise_for_status()
            accepted = (await answer.json())["accepted"]
        return {"rate": accepted / (time.perf_counter() - begin)}

    async def _probe(self, rate: float, seconds: float, ms: int) -> dict[str, Any]:
        """Of each job the milliseconds until it started, and until it ended, as the database has them."""
        begin, jobs = time.perf_counter(), []
        for index in range(round(rate * seconds)):
            await asyncio.sleep(max(0.0, begin + index / rate - time.perf_counter()))
            jobs.append(asyncio.create_task(self._run(ms)))
        found = await asyncio.gather(*jobs)
        return {
            "failed": sum(1 for job in found if job["status"] != "succeeded"),
            "queue": [job["metrics"]["queue_ms"] for job in found],
            "total": [job["metrics"]["total_ms"] for job in found],
        }

    async def _run(self, ms: int) -> dict[str, Any]:
        path = f"/v1/jobs/{await self._submit(ms)}"
        async with asyncio.timeout(PATIENCE):
            while True:
                job = await self._get(path)
                if job["status"] in ENDED:
                    return job
                await asyncio.sleep(LOOK)

    async def _submit(self, ms: int) -> str:
        async with self._session.post("/v1/jobs", json=build(ms)) as answer:
            answer.raise_for_status()
            return str((await answer.json())["id"])

    async def _count_left(self, within: float) -> int:
        """How many wait, of all tenants; returns when none does, or the time is over."""
        deadline = time.perf_counter() + within
        while True:
            left = sum((await self._get("/v1/models/work"))["queue"].values())
            if not left or time.perf_counter() >= deadline:
                return int(left)
            await asyncio.sleep(LOOK)

    async def _get(self, path: str) -> dict[str, Any]:
        async with self._session.get(path) as answer:
            answer.raise_for_status()
            found: dict[str, Any] = await answer.json()
            return found


def build(ms: int) -> dict[str, Any]:
    return {"model": "work", "inputs": {"ms": [[ms]]}}


@asynccontextmanager
async def open_load() -> AsyncIterator[Answering]:
    headers = {"Authorization": f"Bearer {sys.argv[2]}"}
    async with aiohttp.ClientSession(sys.argv[1], headers=headers, trust_env=False) as session:
        yield Flood(session).answer


if __name__ == "__main__":
    serve(open_load)
