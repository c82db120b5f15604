"""`python -m benchmarks.submitting <key>`: submits jobs, and does nothing else, at next to no cost."""

import asyncio
import itertools
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.bodies import BODIES
from benchmarks.driver import Answering, serve
from benchmarks.wire import ACCEPTED, PATIENCE, Connection, post

LEAD = 0.5  # seconds of load before counting begins


class Submissions:
    def __init__(self, key: str) -> None:
        self._key = key
        self._numbers = itertools.count()

    async def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """`connections` at a time: for `seconds` one job after the other, or without it one job on each.

        Those are evenly spaced `over` so many seconds. With `batch` a request is one of so many jobs.
        """
        connections = await asyncio.gather(*(Connection.open(question["port"]) for _ in range(question["connections"])))
        try:
            return await self._submit(connections, BODIES[question["model"]], question)
        finally:
            for connection in connections:
                connection.transport.close()

    async def _submit(self, connections: Sequence[Connection], body: str, question: dict[str, Any]) -> dict[str, Any]:
        """Times in milliseconds; `bytes` of an answer."""
        seconds = question.get("seconds")
        start = time.perf_counter()
        begin = start + (LEAD if seconds else 0.0)
        answers: list[tuple[float, float, int, int]] = []

        async def work(index: int, connection: Connection) -> None:
            request = self._build(body, question["hook"], question.get("batch"))
            sent = start + index * question.get("over", 0.0) / len(connections)
            await asyncio.sleep(max(0.0, sent - time.perf_counter()))
            while True:
                status, size = await connection.ask(request)
                answers.append((sent, time.perf_counter(), status, size))
                if seconds is None or answers[-1][1] >= begin + seconds:
                    return
                request = self._build(body, question["hook"], question.get("batch"))
                sent = time.perf_counter()

        await asyncio.gather(*(work(*each) for each in enumerate(connections)))
        end = begin + (seconds or PATIENCE)
        return {
            "counted": sum(1 for _, at, status, _ in answers if status == ACCEPTED and begin <= at < end),
            "jobs": sum(1 for *_, status, _ in answers if status == ACCEPTED),
            "refused": sum(1 for *_, status, _ in answers if status != ACCEPTED),
            "times": [(at - sent) * 1000 for sent, at, _, _ in answers if sent >= begin],
            "bytes": max(size for *_, size in answers),
        }

    def _build(self, form: str, hook: str, batch: int | None) -> bytes:
        jobs = [form % (hook, next(self._numbers)) for _ in range(batch or 1)]
        path, body = ("/v1/jobs", jobs[0]) if batch is None else ("/v1/batches", f"[{','.join(jobs)}]")
        return post(path, self._key, body)


@asynccontextmanager
async def open_load() -> AsyncIterator[Answering]:
    yield Submissions(sys.argv[1]).answer


if __name__ == "__main__":
    serve(open_load)
