"""What a receiver may send us, beyond what aiohttp bounds by itself.

aiohttp bounds each header and buffers bodies with flow control. Not so what comes beside them (interim answers,
extensions of chunks) nor what comes while nobody asks: it parses answers on an idle connection without end.
"""

import asyncio
import functools

import aiohttp
from aiohttp.client_proto import ResponseHandler
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
            self.refuse(AnswerTooLarge())  # nobody asked: it would be taken for the answer to the next request
            return
        for start in range(0, len(data) or 1, SLICE):
            super().data_received(data[start : start + SLICE])
            if (error := self.exception()) is not None:
                self.refuse(error)
                return
            self.received += len(data[start : start + SLICE])
            beside = self.received - (self.body.total_bytes if self.body is not None else 0)
            if beside > MAX_BESIDE or len(self) > MAX_WAITING:
                self.refuse(AnswerTooLarge())
                return

    def refuse(self, error: BaseException) -> None:
        self.abort()  # first, as it forgets exceptions
        self.set_exception(error)
        if self.body is not None:
            self.body.set_exception(error if isinstance(error, AnswerTooLarge) else AnswerMalformed(str(error)))

    def close(self) -> None:
        """At once: closing TLS politely means to read what still comes, for up to half a minute."""
        self.abort()


def bound(connector: aiohttp.BaseConnector) -> None:
    """Lets a new connector make such connections; aiohttp has no option for it."""

    def make(loop: asyncio.AbstractEventLoop) -> ResponseHandler:
        return BoundedHandler(loop)

    connector._factory = functools.partial(make, asyncio.get_running_loop())
