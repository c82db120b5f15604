"""`python -m benchmarks.receiver`: a receiver of webhooks that costs next to nothing.

It answers every POST with 204 over connections that stay open; those to HANG are never answered.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.driver import Answering, serve
from benchmarks.wire import Reception, listen

HANG = "/hang"
NUMBER = re.compile(rb'"number": *(\d+)')


class Inbox:
    """What came since the last question: the number in each body, and when (seconds of time.perf_counter())."""

    def __init__(self) -> None:
        self.arrived: dict[int, float] = {}
        self.doubled = 0
        self.hanging: set[asyncio.Transport] = set()
        self.came = asyncio.Event()

    def take(self, reception: Reception, path: bytes, body: bytes) -> bool:
        """Whether it is to be answered."""
        if path == HANG.encode():
            self.hanging.add(reception.transport)
            self.came.set()
            return False
        found = NUMBER.search(body)
        assert found is not None, "every body of ours has one"
        number = int(found[1])
        if number in self.arrived:
            self.doubled += 1
        else:
            self.arrived[number] = time.perf_counter()
        self.came.set()
        return True

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


@asynccontextmanager
async def open_load() -> AsyncIterator[Answering]:
    inbox = Inbox()
    server, url = await listen(inbox.take)

    async def answer(question: dict[str, Any]) -> dict[str, Any]:
        return {"url": url} if question["kind"] == "url" else await inbox.answer(question)

    yield answer
    server.close()


if __name__ == "__main__":
    serve(open_load)
