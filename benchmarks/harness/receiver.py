"""Receives webhooks and spans at next to no CPU cost; answers 204 over connections that stay open."""

import asyncio
import re
import time
from contextlib import suppress

from benchmarks.harness.raw_http import NO_CONTENT, Messages
from deploy.local.processes.ports import HOST

SPANS = b"/v1/traces"  # OTLP over HTTP
NUMBER = re.compile(rb'"number": *(\d+)')  # in the metadata of a job, and so in its webhook


class Receiver:
    """Recognizes webhooks by the number in their bodies; times are those of time.perf_counter() in seconds."""

    def __init__(self) -> None:
        self.expected: dict[int, asyncio.Future[tuple[float, bytes]]] = {}  # set to when it arrived, and its body
        self._arrived: dict[int, float] = {}
        self._duplicates = 0
        self._span_bytes = 0
        self._changed = asyncio.Event()

    async def listen(self, port: int = 0) -> str:
        """Serve on this port, or on a free one; return the URL."""
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(lambda: Messages(self._receive), HOST, port, backlog=1000)
        return f"http://{HOST}:{self.server.sockets[0].getsockname()[1]}"

    async def take_arrived(self, count: int, seconds: float) -> tuple[dict[int, float], int]:
        """Return when each webhook arrived since the last call, and the number of repeated ones.

        Wait until there are `count`, or the time is over.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while len(self._arrived) < count:
                    self._changed.clear()
                    await self._changed.wait()
        result = self._arrived, self._duplicates
        self._arrived, self._duplicates = {}, 0
        return result

    async def take_span_bytes(self) -> int:
        """Return how many bytes of spans arrived since the last call."""
        size, self._span_bytes = self._span_bytes, 0
        return size

    def _receive(self, connection: Messages, head: bytes, body: bytes) -> None:
        path, now = head.split(b" ", 2)[1], time.perf_counter()
        self._changed.set()
        if path == SPANS:
            self._span_bytes += len(body)
        elif found := NUMBER.search(body):
            number = int(found[1])
            self._duplicates += number in self._arrived
            self._arrived.setdefault(number, now)
            if (expected := self.expected.pop(number, None)) and not expected.done():
                expected.set_result((now, body))
        connection.transport.write(NO_CONTENT)
