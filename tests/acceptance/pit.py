"""A receiver that hangs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from deploy.local.ports import HOST


class Pit:
    """Takes connections and requests, and never answers."""

    def __init__(self) -> None:
        self.url = ""
        self.held: set[asyncio.StreamWriter] = set()
        self.most = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.held.add(writer)
        self.most = max(self.most, len(self.held))
        with suppress(ConnectionError):
            await reader.read()  # until one side gives up
        self.held.discard(writer)
        writer.close()


@asynccontextmanager
async def dig() -> AsyncIterator[Pit]:
    pit = Pit()
    async with await asyncio.start_server(pit.serve, HOST, 0) as server:
        pit.url = f"http://{HOST}:{server.sockets[0].getsockname()[1]}/"
        yield pit
        for writer in pit.held:
            writer.close()
