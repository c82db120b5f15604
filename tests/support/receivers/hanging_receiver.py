"""A webhook receiver that never answers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from deploy.local.processes.ports import HOST


class HangingReceiver:
    """Accepts connections and requests, and never answers."""

    def __init__(self) -> None:
        self.url = ""
        self.connections: set[asyncio.StreamWriter] = set()
        self.most_connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.add(writer)
        self.most_connections = max(self.most_connections, len(self.connections))
        with suppress(ConnectionError):
            await reader.read()  # until the sender or the test closes the connection
        self.connections.discard(writer)
        writer.close()


@asynccontextmanager
async def open_hanging_receiver() -> AsyncIterator[HangingReceiver]:
    receiver = HangingReceiver()
    async with await asyncio.start_server(receiver.serve, HOST, 0) as server:
        receiver.url = f"http://{HOST}:{server.sockets[0].getsockname()[1]}/"
        yield receiver
        for writer in receiver.connections:
            writer.close()
