"""What a receiver may send us, beyond what aiohttp bounds by itself.

aiohttp bounds each header and buffers bodies with flow control. Not so what comes beside them (interim answers,
extensions of chunks) nor what comes while nobody asks: it parses answers on an idle connection without end.
"""

import asyncio
import functools
from collections.abc import Iterator

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http import RawResponseMessage
from aiohttp.streams import StreamReader

SLICE = 4096  # bytes parsed at a time: an answer may be 16 bytes long and is an object of a hundred times that
MAX_WAITING = 8  # answers nobody has looked at yet, the interim ones included
MAX_BESIDE = 64 * 1024  # bytes of a whole answer that are not its body: heads, framing, trailers


class AnswerTooLarge(aiohttp.ClientPayloadError):
    """More than a receiver has reason to send."""


class AnswerMalformed(aiohttp.ClientPayloadError):
    """What followed the head was not HTTP."""


class BoundedHandler(ResponseHandler):
    """One connection."""

    received = 0  # bytes since the request
    body: StreamReader | None = None  # of the answer; None until its head is there

    def set_response_params(self, **options: object) -> None:
        """A request is about to be sent."""
        self.received, self.body = 0, None
        super().set_response_params(**options)  # type: ignore[arg-type]

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        if data[0].code >= 200:
            self.body = data[1]
        super().feed_data(data, size)

    def data_received(self, data: bytes) -> None:
        if self.body is not None and self.body.is_eof() and data:
            self.abort()  # nobody asked: it would be taken for the answer to the next request
            return
        for piece in self.cut(data):
            super().data_received(piece)
            if (error := self.exception()) is not None:
                self.refuse(error)
                return
            self.received += len(piece)
            beside = self.received - (self.body.total_bytes if self.body is not None else 0)
            if beside > MAX_BESIDE or len(self) > MAX_WAITING:
                self.refuse(AnswerTooLarge())
                return

    def cut(self, data: bytes) -> Iterator[bytes]:
        """Slices, of a head its lines: the parser forgets a head that comes along with what it can't read."""
        start = 0
        while True:
            line = data.find(b"\n", start, start + SLICE) + 1 if self.body is None else 0
            end = line or start + SLICE
            yield data[start:end]
            if end >= len(data):
                return
            start = end

    def refuse(self, error: BaseException) -> None:
        """An answer that is whole stands, whatever follows it."""
        self.abort()  # first, as it forgets exceptions
        self.set_exception(error)
        if self.body is not None and not self.body.is_eof():
            self.body.set_exception(error if isinstance(error, AnswerTooLarge) else AnswerMalformed(str(error)))

    def close(self) -> None:
        """At once: closing TLS politely means to read what still comes, for up to half a minute."""
        self.abort()


class Answer(aiohttp.ClientResponse):
    """Without the reason: it may be in any encoding, where httpx expects ours, and nobody reads it."""

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        await super().start(connection)
        self.reason = ""
        return self


def bound(connector: aiohttp.BaseConnector) -> None:
    """Lets a new connector make such connections; aiohttp has no option for it."""

    def make(loop: asyncio.AbstractEventLoop) -> ResponseHandler:
        return BoundedHandler(loop)

    connector._factory = functools.partial(make, asyncio.get_running_loop())
