"""The head of a request is bounded in size and time, whatever the service."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from common import health
from common.heads import MAX_HEAD, BoundedHead
from deploy.local.ports import HOST, free_ports
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
    """The status and type of a refusal, after which nothing comes."""
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    assert b"Content-Type: application/problem+json" in head
    problem = msgspec.json.decode(body, type=dict[str, str | int])
    assert head.startswith(f"HTTP/1.1 {problem['status']} ".encode())
    return int(problem["status"]), str(problem["type"]).removeprefix("urn:charonia:problem:")


@pytest.mark.parametrize(
    "head",
    [
        START + b"X: " + b"a" * 100_000 + b"\r\n\r\n",
        START + b"X: a\r\n" * 15_000 + b"\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
    ids=["long header", "many headers", "long URL"],
)
async def test_a_large_head_is_refused(port: int, head: bytes) -> None:
    async with connected(port) as (reader, writer):
        writer.write(head)
        assert await read_problem(reader) == (431, "request_header_fields_too_large")


async def test_a_header_without_end_is_cut(port: int) -> None:
    async with connected(port) as (_, writer):
        with pytest.raises(ConnectionError):  # a reset, because more was on its way
            await flood(writer)


async def flood(writer: asyncio.StreamWriter) -> None:
    writer.write(START + b"X: ")
    while True:
        writer.write(b"a" * 65_536)
        await writer.drain()


async def test_what_is_no_request_is_refused(port: int) -> None:
    async with connected(port) as (reader, writer):
        writer.write(b"FOO / HTTP/1.1\r\n\r\n")
        assert await read_problem(reader) == (400, "bad_request")


async def test_a_head_that_stops_half_way_is_given_up(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedHead, "seconds_of_head", 0.2)
    async with connected(port) as (reader, writer):
        writer.write(START)
        assert await read_problem(reader) == (408, "request_timeout")
    async with connected(port) as (reader, writer):
        assert await reader.read() == b""
    async with connected(port) as (reader, writer):  # of the second request as well
        writer.write(START + b"\r\n")
        assert (await reader.readuntil(b'{"status":"ok"}')).startswith(b"HTTP/1.1 200 OK")
        writer.write(START)
        assert await read_problem(reader) == (408, "request_timeout")


async def test_one_connection_takes_many_requests(port: int) -> None:
    """Each has a head of its own, some nearly as large as may be."""
    async with connected(port) as (reader, writer):
        for _ in range(5):
            writer.write(START + b"X: " + b"a" * (MAX_HEAD - 1000) + b"\r\n\r\n")
            assert (await reader.readuntil(b'{"status":"ok"}')).startswith(b"HTTP/1.1 200 OK")
        writer.write((START + b"\r\n") * 3)
        for _ in range(3):
            await reader.readuntil(b'{"status":"ok"}')
