"""The head of a request is limited in size and time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from common.http import health
from common.http.request_head_limits import MAX_HEAD, LimitedHeadProtocol
from deploy.local.processes.ports import HOST, free_ports
from services.gateway.http.problems import ProblemBody
from tests.integration.waiting import until

WITHIN = 20.0  # seconds
START = b"GET /healthz HTTP/1.1\r\nHost: a\r\n"


@pytest.fixture(scope="module")
async def port() -> AsyncIterator[int]:
    (port,) = free_ports(1)
    server = health.serve(HOST, port, {})
    serving = asyncio.create_task(server.serve())
    await until(lambda: server.started, "it serves")
    yield port
    server.should_exit = True
    await serving


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        async with asyncio.timeout(WITHIN):
            yield reader, writer
    finally:
        writer.close()


async def read_problem(reader: asyncio.StreamReader) -> tuple[int, str]:
    """Return the status and the type of a problem that ends the connection."""
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    assert b"Content-Type: application/problem+json" in head
    problem = msgspec.json.decode(body, type=ProblemBody)
    assert head.startswith(f"HTTP/1.1 {problem.status} ".encode())
    return problem.status, problem.type.removeprefix("urn:charonia:problem:")


@pytest.mark.parametrize(
    "head",
    [
        START + b"X: " + b"a" * MAX_HEAD + b"\r\n\r\n",
        START + b"X: a\r\n" * (MAX_HEAD // 6 + 1) + b"\r\n",
        b"GET /" + b"a" * MAX_HEAD + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
    ids=["long header", "many headers", "long URL"],
)
async def test_a_large_head_is_refused(port: int, head: bytes) -> None:
    """Little is left to send when it is refused. More could arrive later, and reset the connection."""
    async with connected(port) as (reader, writer):
        writer.write(head)
        assert await read_problem(reader) == (431, "request_header_fields_too_large")


async def test_a_header_without_end_closes_the_connection(port: int) -> None:
    async with connected(port) as (_, writer):
        with pytest.raises(ConnectionError):  # a reset, because more bytes were on their way
            await flood(writer)


async def flood(writer: asyncio.StreamWriter) -> None:
    writer.write(START + b"X: ")
    while True:
        writer.write(b"a" * 65_536)
        await writer.drain()


async def test_anything_but_a_request_is_refused(port: int) -> None:
    async with connected(port) as (reader, writer):
        writer.write(b"FOO / HTTP/1.1\r\n\r\n")
        assert await read_problem(reader) == (400, "bad_request")


async def test_an_incomplete_head_times_out(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LimitedHeadProtocol, "seconds_of_head", 0.2)
    async with connected(port) as (reader, writer):
        writer.write(START)
        assert await read_problem(reader) == (408, "request_timeout")
    async with connected(port) as (reader, writer):
        assert await reader.read() == b""
    async with connected(port) as (reader, writer):  # a second request too
        writer.write(START + b"\r\n")
        assert (await reader.readuntil(b'{"status":"ok"}')).startswith(b"HTTP/1.1 200 OK")
        writer.write(START)
        assert await read_problem(reader) == (408, "request_timeout")


async def test_one_connection_takes_many_requests(port: int) -> None:
    """Each request has its own limit. Some heads are almost as large as allowed."""
    async with connected(port) as (reader, writer):
        for _ in range(5):
            writer.write(START + b"X: " + b"a" * (MAX_HEAD - 1000) + b"\r\n\r\n")
            assert (await reader.readuntil(b'{"status":"ok"}')).startswith(b"HTTP/1.1 200 OK")
        writer.write((START + b"\r\n") * 3)
        for _ in range(3):
            await reader.readuntil(b'{"status":"ok"}')
