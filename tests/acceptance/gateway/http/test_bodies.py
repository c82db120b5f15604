"""Bodies that are slow or never come hurt nobody else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import islice

import pytest

from deploy.local.processes.ports import HOST
from deploy.local.services import DEVELOPMENT_KEY, Service
from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api.api_client import Job, read
from tests.support.stacks.key_command import make_key
from tests.support.stacks.own_gateway import another_gateway

BUDGET = 8 * 65_536  # bytes of all bodies
PART = b" " * 60_000  # of a body
COUNT = 20  # bodies of the greedy tenant
ANNOUNCED = 16 * 1024 * 1024
ECHO = {"model": "echo", "inputs": {"x": [[1.0]]}}


@pytest.fixture(scope="module")
async def small_gateway(stack: Stack) -> AsyncIterator[Service]:
    """A gateway with little memory for bodies."""
    async with another_gateway(stack, CHARONIA_MAX_BODIES_BYTES=f"{BUDGET}") as gateway:
        yield gateway


@asynccontextmanager
async def announce(port: int, key: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Announce a large body, and send none of it."""
    reader, writer = await asyncio.open_connection(HOST, port)
    head = f"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {ANNOUNCED}\r\nExpect: 100-continue\r\n\r\n".encode())
    try:
        yield reader, writer
    finally:
        writer.close()


async def read_status(reader: asyncio.StreamReader) -> int:
    """Return the status of the next answer. 100 says that the gateway waits for the body."""
    async with asyncio.timeout(10):
        head = await reader.readuntil(b"\r\n\r\n")
    return int(head.split()[1])


async def test_bodies_that_never_come_hold_no_memory(stack: Stack) -> None:
    async with AsyncExitStack() as opened, open_client(stack, DEVELOPMENT_KEY) as api:
        for _ in range(9):  # 8 of them would fill the default of CHARONIA_MAX_BODIES_BYTES
            reader, _writer = await opened.enter_async_context(announce(stack.settings.gateway_port, DEVELOPMENT_KEY))
            assert await read_status(reader) == 100
        for _ in range(30):
            read(await api.http.post("/v1/jobs", json=ECHO), 202, Job)


async def test_bodies_of_strangers_are_refused_unread(stack: Stack) -> None:
    async with announce(stack.settings.gateway_port, "ch_unknown") as (reader, _):
        assert await read_status(reader) == 401


async def test_bodies_of_one_tenant_leave_room_for_others(stack: Stack, small_gateway: Service) -> None:
    greedy, other = await make_key(stack, "greedy"), await make_key(stack, "modest")
    async with AsyncExitStack() as opened, open_client(stack, other, small_gateway.url) as api:
        answers = []
        for _ in range(COUNT):
            reader, writer = await opened.enter_async_context(announce(small_gateway.port, greedy))
            assert await read_status(reader) == 100
            writer.write(PART)
            await writer.drain()
            answers.append(asyncio.create_task(read_status(reader)))
        for answer in islice(asyncio.as_completed(answers), COUNT - BUDGET // len(PART) + 1):
            assert await answer == 503  # the others hold the tenant's share
        read(await api.http.post("/v1/jobs", json=ECHO | {"metadata": {"text": "x" * 10_000}}), 202, Job)
        for answer in answers:
            answer.cancel()
