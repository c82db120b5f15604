"""`python -m benchmarks.submitting <key>`: submits jobs, and does nothing else, at next to no cost.

A client library takes as long as the endpoint that is measured; this writes bytes, and looks for where an answer ends.
"""

import asyncio
import itertools
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self

from benchmarks.bodies import BODIES
from benchmarks.driver import Answering, serve
from benchmarks.receiver import LENGTH
from deploy.local.ports import HOST

LEAD = 0.5  # seconds of load before counting begins
PATIENCE = 120.0  # seconds for an answer
ACCEPTED = 202


class Connection(asyncio.Protocol):
    """One request at a time."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._buffer = b""
        self._answered: asyncio.Future[tuple[int, int]] | None = None

    @classmethod
    async def open(cls, port: int) -> Self:
        transport, connection = await asyncio.get_running_loop().create_connection(cls, HOST, port)
        connection.transport = transport
        return connection

    async def ask(self, request: bytes) -> tuple[int, int]:
        """Return the status, and how many bytes the body has; raises ConnectionError, TimeoutError."""
        self._answered = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        async with asyncio.timeout(PATIENCE):
            return await self._answered

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        length = LENGTH.search(self._buffer, 0, end + 2) if end >= 0 else None
        if length is None or len(self._buffer) < end + 4 + int(length[1]):
            return
        assert self._answered is not None, "nobody answers before he is asked"
        self._answered.set_result((int(self._buffer[9:12]), int(length[1])))
        self._buffer = b""

    def connection_lost(self, error: Exception | None) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(ConnectionResetError("closed without an answer"))


class Submissions:
    def __init__(self, key: str) -> None:
        self._head = (
            f"POST %s HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {key}\r\n"
            "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        )
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
        return (self._head % (path, len(body)) + body).encode()


@asynccontextmanager
async def open_load() -> AsyncIterator[Answering]:
    yield Submissions(sys.argv[1]).answer


if __name__ == "__main__":
    serve(open_load)
