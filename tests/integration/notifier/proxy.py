"""An egress proxy on loopback: tunnels what is asked for with CONNECT, passes on what comes in absolute form."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

CONNECTED = b"HTTP/1.1 200 Connection established\r\n\r\n"


class Proxy:
    def __init__(self, routes: dict[str, int], answer: bytes) -> None:
        """`routes` are ports on loopback by host name; unless `answer`, to CONNECT, is 200, there is no tunnel."""
        self.routes = routes
        self.answer = answer
        self.heads: list[bytes] = []
        self.port = 0
        self.tasks: set[asyncio.Task[None]] = set()

    def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self.pass_on(reader, writer))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
            there = await asyncio.open_connection("127.0.0.1", self.routes[host.strip("[]")])
            there[1].write(first)
            await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))

    @property
    def asked(self) -> list[str]:
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
        for task in tuple(proxy.tasks):
            task.cancel()
        await asyncio.gather(*proxy.tasks, return_exceptions=True)
