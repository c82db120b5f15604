"""An egress proxy on loopback. It tunnels CONNECT requests and forwards requests in absolute form."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

CONNECTED = b"HTTP/1.1 200 Connection established\r\n\r\n"


class Proxy:
    def __init__(self, routes: dict[str, int], answer: bytes) -> None:
        """`routes`: loopback ports by host name.

        `answer`: the response to CONNECT; only a 200 opens a tunnel.
        """
        self.routes = routes
        self.answer = answer
        self.heads: list[bytes] = []
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self.forward(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, KeyError), contextlib.closing(writer):
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head)
            method, target, _ = head.split(b" ", 2)
            if method == b"CONNECT":
                writer.write(self.answer)
                if not self.answer.startswith(b"HTTP/1.1 200"):
                    return
                host, first = target.decode().rpartition(":")[0], b""
            else:
                host, first = urlsplit(target.decode()).hostname or "", head
            upstream = await asyncio.open_connection("127.0.0.1", self.routes[host.strip("[]")])
            upstream[1].write(first)
            await asyncio.gather(copy(reader, upstream[1]), copy(upstream[0], writer))

    @property
    def requests(self) -> list[str]:
        """The first line of each request."""
        return [head.split(b"\r\n", 1)[0].decode() for head in self.heads]


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.closing(writer):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def proxying(
    routes: dict[str, int], answer: bytes = CONNECTED, context: ssl.SSLContext | None = None
) -> AsyncIterator[Proxy]:
    proxy = Proxy(routes, answer)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, ssl=context)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        for task in tuple(proxy._tasks):
            task.cancel()
        await asyncio.gather(*proxy._tasks, return_exceptions=True)
