"""A gateway holds only some pieces of a file, whatever its size."""

import hashlib
import os
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api.api_client import Api
from tests.support.api.large_outputs import measure_peak
from tests.support.stacks.key_command import make_key
from tests.support.stacks.own_gateway import another_gateway

MIB = 1024 * 1024
SIZE = 96 * MIB
GROWTH = 64 * MIB
BLOCK = os.urandom(MIB)
READERS = 20
READ_SIZE = 16 * MIB  # by each: all of them together have more than the limit
READERS_PEAK = 300 * 1000 * 1000


async def send(size: int = SIZE) -> AsyncIterator[bytes]:
    for _ in range(size // MIB):
        yield BLOCK


async def test_large_files_and_slow_readers_take_little_memory(stack: Stack) -> None:
    key = await make_key(stack, f"files-{uuid.uuid4().hex[:8]}")
    async with another_gateway(stack) as gateway, open_client(stack, key, gateway.url) as api:
        await api.http.post("/v1/files", content=b"small")
        before = measure_peak(gateway)
        await copy(api)
        grown = measure_peak(gateway) - before
        assert grown < GROWTH, f"grew by {grown // MIB} MiB"
        await read_slowly(api)
        peak = measure_peak(gateway)
        assert peak < READERS_PEAK, f"the gateway took {peak // MIB} MiB"


async def copy(api: Api) -> None:
    """Upload a large file and download it."""
    response = await api.http.post("/v1/files", content=send(), timeout=120)
    assert response.status_code == 201, response.text
    file, digest = response.json(), hashlib.sha256()
    async with api.http.stream("GET", f"/v1/files/{file['id']}/content", timeout=120) as download:
        async for chunk in download.aiter_raw():
            digest.update(chunk)
    assert (file["size"], file["sha256"]) == (SIZE, digest.hexdigest())


async def read_slowly(api: Api) -> None:
    """Read a file many times at once. Each reader waits for all others before its next MiB."""
    async with AsyncExitStack() as downloads:
        file = (await api.http.post("/v1/files", content=send(READ_SIZE), timeout=120)).json()
        path = f"/v1/files/{file['id']}/content"
        streams = [await downloads.enter_async_context(api.http.stream("GET", path)) for _ in range(READERS)]
        readers = [(stream.aiter_raw(MIB), hashlib.sha256()) for stream in streams]
        for _ in range(READ_SIZE // MIB):
            for pieces, digest in readers:
                digest.update(await anext(pieces))
        assert {digest.hexdigest() for _, digest in readers} == {file["sha256"]}
