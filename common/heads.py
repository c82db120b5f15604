"""Bounds for what comes before a body. uvicorn has none: a header without end costs memory, and time by its square."""

import asyncio
import json
from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD = 64 * 1024  # bytes of the URL and all headers
HEAD_SECONDS = 30.0  # from a connection's begin, or a request's first byte, to the end of its head
TROUBLE = {
    HTTPStatus.BAD_REQUEST: "this is no HTTP request",
    HTTPStatus.REQUEST_TIMEOUT: f"the head of the request did not arrive within {HEAD_SECONDS:g} s",
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: f"the URL and the headers are over {MAX_HEAD} bytes together",
}


class HeadTooLarge(Exception):
    """Thrown through the parser, to end it."""


class BoundedHead(HttpToolsProtocol):
    """One connection. What it refuses is answered with a problem, and the connection closed."""

    seconds_of_head = HEAD_SECONDS
    is_whole = False  # the head of the present request; between two requests, of the next
    size = 0  # bytes of the head that the parser has told of
    received = 0  # bytes of it that came
    clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.start_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        self.stop_clock()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self.received += 0 if self.is_whole else len(data)
        super().data_received(data)
        # The parser says nothing of a header before its end.
        if not self.is_whole and self.received > 2 * MAX_HEAD and not self.transport.is_closing():
            self.refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.size = 0
        if self.clock is None:
            self.start_clock()

    def on_url(self, url: bytes) -> None:
        self.count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.count(len(name) + len(value) + len(": \r\n"))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self.is_whole, self.received = True, 0
        self.stop_clock()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self.is_whole = False
        super().on_message_complete()

    def count(self, size: int) -> None:
        self.size += size
        if self.size > MAX_HEAD:
            raise HeadTooLarge

    def send_400_response(self, _msg: str) -> None:
        too_large = self.size > MAX_HEAD
        self.refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE if too_large else HTTPStatus.BAD_REQUEST)

    def refuse(self, status: HTTPStatus) -> None:
        problem = {
            "type": f"urn:charonia:problem:{status.phrase.lower().replace(' ', '_')}",
            "title": status.phrase,
            "status": status,
            "detail": TROUBLE[status],
        }
        body = json.dumps(problem).encode()
        lines = (
            f"HTTP/1.1 {status} {status.phrase}",
            "Content-Type: application/problem+json",
            f"Content-Length: {len(body)}",
            "Connection: close",
        )
        self.transport.write("".join(f"{line}\r\n" for line in (*lines, "")).encode() + body)
        self.transport.close()

    def start_clock(self) -> None:
        self.clock = asyncio.get_running_loop().call_later(self.seconds_of_head, self.end)

    def stop_clock(self) -> None:
        if self.clock is not None:
            self.clock.cancel()
            self.clock = None

    def end(self) -> None:
        self.clock = None
        if self.received and not self.transport.is_closing():
            self.refuse(HTTPStatus.REQUEST_TIMEOUT)
        self.transport.close()  # who has said nothing is told nothing
