"""A dispatcher takes little memory for a large file that a model reads itself, and a bounded one for its bytes."""

import hashlib
import struct
import uuid
from collections.abc import AsyncIterator

from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api.api_client import Api
from tests.support.api.large_outputs import measure_peak
from tests.support.stacks.key_command import make_key
from tests.support.stacks.own_dispatcher import replace_dispatcher

MIB = 1024 * 1024
GROWTH = 64 * MIB
SIZE = 80 * MIB  # more than the dispatcher may grow by
BLOCK, DOUBLED = (struct.pack("<f", value) * (MIB // 4) for value in (0.5, 1.0))
TIMEOUT = 60.0  # seconds, of one call


async def send(blocks: int) -> AsyncIterator[bytes]:
    for _ in range(blocks):
        yield BLOCK


async def upload(api: Api, size: int) -> str:
    """Return the id of a new file with this many bytes."""
    response = await api.http.post("/v1/files", content=send(size // MIB), timeout=TIMEOUT)
    assert response.status_code == 201, response.text
    file: str = response.json()["id"]
    return file


async def read_part(api: Api, file: str, offset: int) -> None:
    """Run a model that reads a MiB of the file."""
    job = await api.run("excerpt", {"audio": {"file": file}, "offset": [offset], "length": [MIB]})
    assert job.status == "succeeded", job.error
    assert job.output("sha256") == [hashlib.sha256(BLOCK).hexdigest()]


async def read_as_bytes(api: Api, file: str) -> None:
    """Run a model that gets the whole file and returns as much."""
    submitted = await api.submit("echo", {"x": {"file": file, "shape": [1, SIZE // 4]}})
    job = await api.wait(submitted.id, within=TIMEOUT)
    assert job.status == "succeeded", job.error
    output = job.file("y")
    assert (output.size, output.sha256) == (SIZE, hashlib.sha256(DOUBLED * (SIZE // MIB)).hexdigest())


async def test_a_large_file_takes_bounded_memory(breakable: Stack) -> None:
    """For its bytes, a dispatcher holds an input and a copy of gRPC, then as much for an output."""
    key = await make_key(breakable, f"inputs-{uuid.uuid4().hex[:8]}")
    async with (
        replace_dispatcher(breakable, CHARONIA_MAX_TRITON_RESPONSE_BYTES=str(SIZE + MIB)) as dispatcher,
        open_client(breakable, key) as api,
    ):
        await read_part(api, await upload(api, MIB), 0)
        file, before = await upload(api, SIZE), measure_peak(dispatcher)
        await read_part(api, file, SIZE - 2 * MIB)
        grown = measure_peak(dispatcher) - before
        assert grown < GROWTH, f"the dispatcher grew by {grown // MIB} MiB for a reference"
        await read_as_bytes(api, file)
        grown = measure_peak(dispatcher) - before
        assert grown < 4 * SIZE + GROWTH, f"the dispatcher grew by {grown // MIB} MiB for bytes"
