"""`python -m benchmarks.receiver`: a receiver of webhooks that costs next to nothing.

It answers every POST with 204 over connections that stay open; those to HANG are never answered.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from benchmarks.driver import Answering, serve
from deploy.local.ports import HOST

HANG = "/hang"
ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
NUMBER = re.compile(rb'"number": *(\d+)')


class Inbox:
    """What came since the last question: the number in each body, and when (seconds of time.perf_counter())."""

    def __init__(self) -> None:
        self.arrived: dict[int, float] = {}
        self.doubled = 0
        self.hanging: set[asyncio.Transport] = set()
        self.came = asyncio.Event()

    def take(self, body: bytes) -> None:
        found = NUMBER.search(body)
        assert found is not None, "every body of ours has one"
        number = int(found[1])
        if number in self.arrived:
            self.doubled += 1
        else:
            self.arrived[number] = time.perf_counter()
        self.came.set()

    async def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        match question["kind"]:
            case "arrived":
                await self._wait(question)
                found = {"arrived": list(self.arrived.items()), "doubled": self.doubled}
                self.arrived, self.doubled = {}, 0
                return found
            case "hanging":
                await self._wait(question)
                return {"hanging": len(self.hanging)}
            case _:
                for transport in tuple(self.hanging):
                    transport.abort()
                return {}

    async def _wait(self, question: dict[str, Any]) -> None:
        """Returns once there are as many as are asked for; what comes too late is missing in the answer."""
        held = self.arrived if question["kind"] == "arrived" else self.hanging
        deadline = time.perf_counter() + question["within"]
        while len(held) < question["count"] and (left := deadline - time.perf_counter()) > 0:
            self.came.clear()
            try:
                async with asyncio.timeout(left):
                    await self.came.wait()
            except TimeoutError:
                return


class Reception(asyncio.Protocol):
    """One connection."""

    transport: asyncio.Transport

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's own has no such base

    def connection_lost(self, error: Exception | None) -> None:
        self._inbox.hanging.discard(self.transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            length = LENGTH.search(self._buffer, 0, end)
            whole = end + 4 + (int(length[1]) if length else 0)
            if len(self._buffer) < whole:
                return
            head, body, self._buffer = self._buffer[:end], self._buffer[end + 4 : whole], self._buffer[whole:]
            if head.split(b" ", 2)[1] == HANG.encode():
                self._inbox.hanging.add(self.transport)
                self._inbox.came.set()
            else:
                self._inbox.take(body)
                self.transport.write(ANSWER)


@asynccontextmanager
async def open_load() -> AsyncIterator[Answering]:
    inbox = Inbox()
    server = await asyncio.get_running_loop().create_server(lambda: Reception(inbox), HOST, 0, backlog=1000)
    port = server.sockets[0].getsockname()[1]

    async def answer(question: dict[str, Any]) -> dict[str, Any]:
        return {"url": f"http://{HOST}:{port}"} if question["kind"] == "url" else await inbox.answer(question)

    yield answer
    server.close()


if __name__ == "__main__":
    serve(open_load)
