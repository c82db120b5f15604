"""`python -m benchmarks.sink <port>`: takes what a collector of traces would, over OTLP/HTTP, and counts it."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from benchmarks.driver import Answering, serve
from deploy.local.ports import HOST


class Sink:
    def __init__(self) -> None:
        self.batches = 0
        self.size = 0

    async def receive(self, request: web.BaseRequest) -> web.Response:
        self.batches += 1
        self.size += len(await request.read())
        return web.Response()

    async def answer(self, _question: dict[str, Any]) -> dict[str, Any]:
        """What came since the last time."""
        found = {"batches": self.batches, "bytes": self.size}
        self.batches = self.size = 0
        return found


@asynccontextmanager
async def open_sink() -> AsyncIterator[Answering]:
    sink = Sink()
    runner = web.ServerRunner(web.Server(sink.receive), shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, HOST, int(sys.argv[1])).start()
    yield sink.answer
    await runner.cleanup()


if __name__ == "__main__":
    serve(open_sink)
