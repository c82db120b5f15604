"""A proxy to a server whose connections can be lost silently, as when a network fails."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from urllib.parse import urlsplit, urlunsplit

HOST = "127.0.0.1"


class Proxy:
    """Forwards bytes in both directions."""

    def __init__(self, port: int) -> None:
        """`port` is that of the server."""
        self.port = port
        self.pipes: set[asyncio.Task[None]] = set()
        self.writers: list[asyncio.StreamWriter] = []
        self.server_writers: list[asyncio.StreamWriter] = []
        self.server: asyncio.Server | None = None
        self.connected = True

    def url_of(self, url: str) -> str:
        """Return the server's URL through this proxy."""
        assert self.server is not None, "it listens"
        parts = urlsplit(url)
        credentials, _, _ = parts.netloc.rpartition("@")
        port = self.server.sockets[0].getsockname()[1]
        return urlunsplit(parts._replace(netloc=f"{credentials}@{HOST}:{port}"))

    def silence(self) -> None:
        """Stop forwarding on the present connections, and leave them open. New connections work."""
        for pipe in tuple(self.pipes):  # a copy, because the tests also call this in a thread
            pipe.cancel()

    def cut_off(self) -> None:
        """Stop forwarding for good. New connections are accepted, and get no answer."""
        self.connected = False
        self.silence()

    def close(self) -> None:
        """Close all connections and refuse new ones, as a system does whose server was killed."""
        if self.server is not None:
            self.server.close()
        for writer in (*self.writers, *self.server_writers):
            writer.transport.abort()

    def forsake_server(self) -> None:
        """Close the connections to the server only. Clients do not notice it after `cut_off`."""
        for writer in self.server_writers:
            writer.transport.abort()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.connected:
            self.writers.append(writer)
            return
        try:
            server_reader, server_writer = await asyncio.open_connection(HOST, self.port)
        except OSError:
            writer.transport.abort()
            return
        self.writers.append(writer)
        self.server_writers.append(server_writer)
        for source, sink in ((reader, server_writer), (server_reader, writer)):
            pipe = asyncio.create_task(pass_on(source, sink))
            self.pipes.add(pipe)
            pipe.add_done_callback(self.pipes.discard)


async def pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(65_536):
            sink.write(data)
            await sink.drain()
    sink.close()


@contextlib.asynccontextmanager
async def proxied(url: str) -> AsyncIterator[Proxy]:
    """Open a proxy to the server of a URL. Close all its connections at the end."""
    port = urlsplit(url).port
    assert port is not None, "our servers listen on ports of their own"
    proxy = Proxy(port)
    proxy.server = await asyncio.start_server(proxy.accept, HOST, 0)
    try:
        yield proxy
    finally:
        proxy.close()
        proxy.silence()
