"""Limits for the head of a request. uvicorn has none: a header without end costs memory, and time by its square."""

import asyncio
import json
from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD = 64 * 1024  # bytes of the URL and all headers
HEAD_SECONDS = 30.0  # from the start of a connection, or the first byte of a request, to the end of the head
_DETAILS = {
    HTTPStatus.BAD_REQUEST: "this is not an HTTP/1.1 request; check its method and its headers",
    HTTPStatus.REQUEST_TIMEOUT: f"the head of the request did not arrive within {HEAD_SECONDS:g} s",
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: f"the URL and the headers are over {MAX_HEAD} bytes together",
}


class _HeadTooLarge(Exception):
    """Ends the parser."""


class LimitedHeadProtocol(HttpToolsProtocol):
    """One connection. It answers a wrong head with a problem, and closes."""

    seconds_of_head = HEAD_SECONDS
    _head_is_complete = False  # the head of this request; between two requests, of the next one
    _head_parsed = 0  # bytes of the head that the parser has reported
    _head_arrived = 0  # bytes of the head that have arrived
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_head_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count the bytes of a head. The parser reports a header only at its end."""
        self._head_arrived += 0 if self._head_is_complete else len(data)
        super().data_received(data)
        if not self._head_is_complete and self._head_arrived > 2 * MAX_HEAD and not self.transport.is_closing():
            self._refuse_head(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def on_message_begin(self) -> None:
        """Wait for the head of a request."""
        super().on_message_begin()
        self._head_parsed = 0
        if self._head_timer is None:
            self._start_head_timer()

    def on_url(self, url: bytes) -> None:
        """Count the URL."""
        self._count_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header."""
        self._count_head(len(name) + len(value) + len(": \r\n"))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Stop waiting: the head is complete."""
        self._head_is_complete, self._head_arrived = True, 0
        self._stop_head_timer()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Expect the next head."""
        self._head_is_complete = False
        super().on_message_complete()

    def send_400_response(self, _msg: str) -> None:
        """Answer a head that the parser refused."""
        too_large = self._head_parsed > MAX_HEAD
        self._refuse_head(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE if too_large else HTTPStatus.BAD_REQUEST)

    def _count_head(self, size: int) -> None:
        self._head_parsed += size
        if self._head_parsed > MAX_HEAD:
            raise _HeadTooLarge

    def _refuse_head(self, status: HTTPStatus) -> None:
        problem = {
            "type": f"urn:charonia:problem:{status.phrase.lower().replace(' ', '_')}",
            "title": status.phrase,
            "status": status,
            "detail": _DETAILS[status],
            "instance": "",  # the path may not have arrived
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

    def _start_head_timer(self) -> None:
        self._head_timer = asyncio.get_running_loop().call_later(self.seconds_of_head, self._time_out_head)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _time_out_head(self) -> None:
        self._head_timer = None
        if self._head_arrived and not self.transport.is_closing():
            self._refuse_head(HTTPStatus.REQUEST_TIMEOUT)
        self.transport.close()  # a client that sent nothing gets no answer
