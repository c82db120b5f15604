"""Limits on what a server may send, beyond aiohttp's own.

aiohttp limits each header, and buffers bodies with flow control. It does not limit interim
responses and chunk extensions. It also parses responses on an idle connection without end.
"""

import asyncio
import functools
from collections.abc import Iterator

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http import RawResponseMessage
from aiohttp.streams import StreamReader

# Bytes parsed at a time. A response can have 16 bytes, and its object takes a hundred times that.
PARSE_BYTES = 4096
MAX_QUEUED_RESPONSES = 8  # parsed and not yet read, including interim responses
# Bytes of a response outside its body: heads, framing, trailers. There may be as many more as the body has so far,
# because each chunk has a line of its own.
MAX_OVERHEAD = 64 * 1024


class ResponseTooLarge(aiohttp.ClientPayloadError):
    """The response exceeds the limits."""


class ResponseMalformed(aiohttp.ClientPayloadError):
    """The data after the head is not HTTP."""


class LimitedHandler(ResponseHandler):
    """One connection."""

    _received = 0  # bytes since the request
    _body: StreamReader | None = None  # the response's body; None until its head has arrived

    def set_response_params(self, **options: object) -> None:
        """Start counting for the request that is about to be sent."""
        self._received, self._body = 0, None
        super().set_response_params(**options)  # type: ignore[arg-type]

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        if data[0].code >= 200:
            self._body = data[1]
        super().feed_data(data, size)

    def data_received(self, data: bytes) -> None:
        if self._body is not None and self._body.is_eof() and data:
            self.abort()  # unrequested data: it would be read as the response to the next request
            return
        for piece in self._split(data):
            super().data_received(piece)
            if (error := self.exception()) is not None:
                self._fail(error)
                return
            self._received += len(piece)
            body = self._body.total_bytes if self._body is not None else 0
            if self._received - body > MAX_OVERHEAD + body or len(self) > MAX_QUEUED_RESPONSES:
                self._fail(ResponseTooLarge())
                return

    def _split(self, data: bytes) -> Iterator[bytes]:
        """Split data into pieces, and a head into lines.

        The parser drops a head that comes with unreadable data.
        """
        start = 0
        while True:
            line = data.find(b"\n", start, start + PARSE_BYTES) + 1 if self._body is None else 0
            end = line or start + PARSE_BYTES
            yield data[start:end]
            if end >= len(data):
                return
            start = end

    def _fail(self, error: BaseException) -> None:
        """Close the connection. A complete response stays valid, whatever follows it."""
        self.abort()  # first, because it clears exceptions
        self.set_exception(error)
        if self._body is not None and not self._body.is_eof():
            self._body.set_exception(error if isinstance(error, ResponseTooLarge) else ResponseMalformed(str(error)))

    def close(self) -> None:
        """Close at once. A graceful TLS close would read incoming data for up to half a minute."""
        self.abort()


class Response(aiohttp.ClientResponse):
    """A response without its reason phrase. Nobody reads it, and httpx rejects some encodings."""

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        await super().start(connection)
        self.reason = ""
        return self


def limit_connections(connector: aiohttp.BaseConnector) -> None:
    """Make a new connector use LimitedHandler. aiohttp has no option for it."""

    def make(loop: asyncio.AbstractEventLoop) -> ResponseHandler:
        return LimitedHandler(loop)

    connector._factory = functools.partial(make, asyncio.get_running_loop())
