"""An HTTP server with contents for inputs by URL. Each path has its own answer, well-behaved or not."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from deploy.local.processes.ports import HOST
from tests.support.waiting import eventually

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


class ContentServer:
    """Answers GET requests, and keeps their heads."""

    def __init__(self) -> None:
        self.url = ""
        self.answers: dict[str, Answer] = {}
        self.heads: list[str] = []
        self.waiting: set[asyncio.StreamWriter] = set()
        self.most_waiting = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.waiting.add(writer)
        self.most_waiting = max(self.most_waiting, len(self.waiting))
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.heads.append(head)
            path = head.split(" ", 2)[1].partition("?")[0]
            answer = asyncio.create_task(self._answer(path, writer))
            leaving = asyncio.create_task(reader.read())
            _, pending = await asyncio.wait({answer, leaving}, return_when=asyncio.FIRST_COMPLETED)
            for task in pending:
                task.cancel()
        self.waiting.discard(writer)
        writer.close()

    async def _answer(self, path: str, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await self.answers.get(path, reply(b"", 404))(writer)

    def add(self, path: str, answer: Answer) -> str:
        """Answer this path so. Return its URL."""
        self.answers[path] = answer
        return self.url + path

    async def until_asked(self) -> None:
        """Return once a request waits for its answer."""

        async def is_asked() -> bool:
            return bool(self.waiting)

        await eventually(is_asked, "the server is asked")

    async def until_left(self) -> None:
        """Return once no request waits."""

        async def is_left() -> bool:
            return not self.waiting

        await eventually(is_left, "no connection is open")


def send(response: bytes) -> Answer:
    """Send these bytes, then close the connection."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(response)
        await writer.drain()

    return answer


def reply(body: bytes, status: int = 200, **headers: str) -> Answer:
    """Answer with a body and its length. `_` in the name of a header stands for `-`."""
    lines = {"content-length": str(len(body)), "connection": "close"}  # as the server does after each answer
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = f"HTTP/1.1 {status} X\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return send(f"{head}\r\n".encode() + body)


def redirect(target: str, status: int = 302) -> Answer:
    return reply(b"", status, location=target)


async def hang(_: asyncio.StreamWriter) -> None:
    """Never answer."""
    await asyncio.Event().wait()


async def drip(writer: asyncio.StreamWriter) -> None:
    """Send a body without end, byte for byte."""
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"1\r\nx\r\n")
        await writer.drain()
        await asyncio.sleep(0.01)


async def flood(writer: asyncio.StreamWriter) -> None:
    """Send a body without end, as fast as it goes."""
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"10000\r\n" + bytes(0x10000) + b"\r\n")
        await writer.drain()


@asynccontextmanager
async def serve_contents() -> AsyncIterator[ContentServer]:
    contents = ContentServer()
    async with await asyncio.start_server(contents.serve, HOST, 0) as server:
        contents.url = f"http://{HOST}:{server.sockets[0].getsockname()[1]}"
        yield contents
        for writer in contents.waiting:
            writer.close()
