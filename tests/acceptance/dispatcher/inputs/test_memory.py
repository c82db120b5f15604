"""A file that a model reads itself takes little memory of the gateway and of the dispatcher, whatever its size."""

import hashlib
import os
import struct
import uuid
from collections.abc import AsyncIterator, Sequence

import pytest

from deploy.local.services import Service
from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api.api_client import Api
from tests.support.api.large_outputs import measure_peak
from tests.support.s3.server import S3
from tests.support.stacks.key_command import make_key
from tests.support.stacks.own_dispatcher import replace_dispatcher
from tests.support.stacks.own_gateway import another_gateway

MIB = 1024 * 1024
GROWTH = 64 * MIB
BLOCK = os.urandom(MIB)
SIZE = 256 * MIB  # of an input as bytes
SIZES = {"folder": 1024, "s3": 256}  # MiB; moto keeps its objects in memory
TIMEOUT = 60.0  # seconds, of one call


async def send(blocks: int, block: bytes = BLOCK) -> AsyncIterator[bytes]:
    for _ in range(blocks):
        yield block


async def download(api: Api, file: str) -> str:
    """Return the SHA-256 of a file."""
    digest = hashlib.sha256()
    async with api.http.stream("GET", f"/v1/files/{file}/content", timeout=TIMEOUT) as response:
        assert response.status_code == 200
        async for piece in response.aiter_raw():
            digest.update(piece)
    return digest.hexdigest()


async def read_part(api: Api, file: str, offset: int) -> None:
    """Run a model that reads a MiB of the file."""
    job = await api.run("excerpt", {"audio": {"file": file}, "offset": [offset], "length": [MIB]})
    assert job.status == "succeeded", job.error
    assert job.output("sha256") == [hashlib.sha256(BLOCK).hexdigest()]


def store_variables(request: pytest.FixtureRequest, place: str) -> dict[str, str]:
    """Return the variables of services that keep files in a folder or in a new bucket, and send files themselves."""
    if place == "folder":
        return {}
    s3: S3 = request.getfixturevalue("s3")
    name = f"inputs-{uuid.uuid4().hex[:8]}"
    s3.create_bucket(name)
    return {"CHARONIA_STORE_URL": f"s3://{name}/some/prefix", "CHARONIA_STORE_REDIRECTS": "false", **s3.environment}


def measure(services: Sequence[Service]) -> list[int]:
    return [measure_peak(service) for service in services]


@pytest.mark.parametrize("place", ["folder", "s3"])
async def test_a_large_file_goes_up_through_a_model_and_down(
    request: pytest.FixtureRequest, breakable: Stack, place: str
) -> None:
    variables, blocks = store_variables(request, place), SIZES[place]
    key = await make_key(breakable, f"inputs-{uuid.uuid4().hex[:8]}")
    async with (
        another_gateway(breakable, **variables) as gateway,
        replace_dispatcher(breakable, CHARONIA_GATEWAY_URL=gateway.url, **variables) as dispatcher,
        open_client(breakable, key, gateway.url) as api,
    ):
        small = (await api.http.post("/v1/files", content=BLOCK)).json()
        await read_part(api, small["id"], 0)
        before = measure([gateway, dispatcher])
        response = await api.http.post("/v1/files", content=send(blocks), timeout=TIMEOUT)
        assert response.status_code == 201, response.text
        file = response.json()
        assert file["size"] == blocks * MIB
        await read_part(api, file["id"], (blocks - 2) * MIB)
        assert await download(api, file["id"]) == file["sha256"]
        grown = [after - first for after, first in zip(measure([gateway, dispatcher]), before, strict=True)]
        assert max(grown) < GROWTH, f"gateway and dispatcher grew by {[each // MIB for each in grown]} MiB"
        assert (await api.http.delete(f"/v1/files/{file['id']}")).status_code == 204


async def test_a_large_file_goes_through_a_model_as_bytes(breakable: Stack) -> None:
    """A dispatcher holds an input and a copy of gRPC, then as much for an output."""
    variables = {"CHARONIA_MAX_MESSAGE": str(SIZE + MIB)}
    key = await make_key(breakable, f"inputs-{uuid.uuid4().hex[:8]}")
    async with (
        replace_dispatcher(breakable, **variables) as dispatcher,
        open_client(breakable, key) as api,
    ):
        block, doubled = (struct.pack("<f", value) * (MIB // 4) for value in (0.5, 1.0))
        response = await api.http.post("/v1/files", content=send(SIZE // MIB, block), timeout=TIMEOUT)
        assert response.status_code == 201, response.text
        before = measure_peak(dispatcher)
        submitted = await api.submit("echo", {"x": {"file": response.json()["id"], "shape": [1, SIZE // 4]}})
        job = await api.wait(submitted.id, within=TIMEOUT)
        assert job.status == "succeeded", job.error
        output = job.file("y")
        assert (output.size, output.sha256) == (SIZE, hashlib.sha256(doubled * (SIZE // MIB)).hexdigest())
        grown = measure_peak(dispatcher) - before
        assert grown < 4 * SIZE + GROWTH, f"the dispatcher grew by {grown // MIB} MiB"
