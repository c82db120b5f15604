"""HTTP/1.1 by hand, both ends, at next to no cost: a library takes as long as what is measured."""

import asyncio
import re
from collections.abc import Callable
from typing import Self, cast

from deploy.local.ports import HOST

ACCEPTED = 202
PATIENCE = 120.0  # seconds for an answer
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
POST = (
    f"POST %s HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer %s\r\n"
    "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
)
ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"


def post(path: str, key: str, body: str) -> bytes:
    """The bytes of a request."""
    return (POST % (path, key, len(body.encode()), body)).encode()


def cut(buffer: bytes) -> tuple[bytes, bytes, bytes] | None:
    """Head, body and what follows of a message that is whole; None where it is not."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        return None
    length = LENGTH.search(buffer, 0, end + 2)
    whole = end + 4 + (int(length[1]) if length else 0)
    return (buffer[:end], buffer[end + 4 : whole], buffer[whole:]) if len(buffer) >= whole else None


class Connection(asyncio.Protocol):
    """The client's end: one request at a time."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._buffer = b""
        self._answered: asyncio.Future[tuple[int, int]] | None = None

    @classmethod
    async def open(cls, port: int) -> Self:
        transport, connection = await asyncio.get_running_loop().create_connection(cls, HOST, port)
        connection.transport = transport
        return connection

    async def ask(self, request: bytes) -> tuple[int, int]:
        """Return the status, and how many bytes the body has; raises ConnectionError, TimeoutError."""
        if self.transport.is_closing():
            raise ConnectionResetError("closed before it was asked")
        self._answered = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        try:
            async with asyncio.timeout(PATIENCE):
                return await self._answered
        except (TimeoutError, asyncio.CancelledError):
            self.transport.abort()  # its answer may still come
            raise

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if (message := cut(self._buffer)) is None:
            return
        head, body, self._buffer = message
        assert self._answered is not None, "nobody answers before he is asked"
        if not self._answered.done():
            self._answered.set_result((int(head[9:12]), len(body)))

    def connection_lost(self, error: Exception | None) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(ConnectionResetError("closed without an answer"))


class Reception(asyncio.Protocol):
    """The server's end of a connection: 204 to whatever `take` (path, body) does not keep waiting."""

    transport: asyncio.Transport

    def __init__(self, take: Callable[["Reception", bytes, bytes], bool]) -> None:
        """`take` says whether to answer."""
        self._take = take
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's own has no such base

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (message := cut(self._buffer)) is not None:
            head, body, self._buffer = message
            if self._take(self, head.split(b" ", 2)[1], body):
                self.transport.write(ANSWER)


async def listen(take: Callable[[Reception, bytes, bytes], bool]) -> tuple[asyncio.Server, str]:
    """A server on a free port, and its URL."""
    server = await asyncio.get_running_loop().create_server(lambda: Reception(take), HOST, 0, backlog=1000)
    return server, f"http://{HOST}:{server.sockets[0].getsockname()[1]}"
