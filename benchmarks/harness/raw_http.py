"""A minimal HTTP/1.1 client and server: a library would use as much CPU as what is measured."""

import asyncio
import re
from collections.abc import Callable
from typing import Self, cast

from deploy.local.processes.ports import HOST

ACCEPTED = 202
RESPONSE_SECONDS = 120.0
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"


class Messages(asyncio.Protocol):
    """Calls `receive` with each message's connection, head and body, as its Content-Length delimits them."""

    transport: asyncio.Transport

    def __init__(self, receive: Callable[["Messages", bytes, bytes], None]) -> None:
        self._receive = receive
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's class does not inherit from it

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            length = LENGTH.search(self._buffer, 0, end + 2)
            whole = end + 4 + (int(length[1]) if length else 0)
            if len(self._buffer) < whole:
                return
            head, body, self._buffer = self._buffer[:end], self._buffer[end + 4 : whole], self._buffer[whole:]
            self._receive(self, head, body)


class Connection(Messages):
    """A client's connection, for one request at a time."""

    def __init__(self) -> None:
        super().__init__(self._receive_response)
        self._response: asyncio.Future[tuple[int, bytes]] | None = None

    @classmethod
    async def open(cls, port: int) -> Self:
        return (await asyncio.get_running_loop().create_connection(cls, HOST, port))[1]

    async def send(self, request: bytes) -> tuple[int, bytes]:
        """Return the status and the body; raise ConnectionError or TimeoutError."""
        if self.transport.is_closing():
            raise ConnectionResetError("the connection was closed before the request")
        self._response = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        try:
            async with asyncio.timeout(RESPONSE_SECONDS):
                return await self._response
        except (TimeoutError, asyncio.CancelledError):
            self.transport.abort()  # a late response would be taken for that of the next request
            raise

    def connection_lost(self, error: Exception | None) -> None:
        if self._response is not None and not self._response.done():
            self._response.set_exception(ConnectionResetError("the connection was closed without a response"))

    def _receive_response(self, _connection: Messages, head: bytes, body: bytes) -> None:
        if self._response is not None and not self._response.done():
            self._response.set_result((int(head[9:12]), body))
