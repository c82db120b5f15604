"""Runs inferences the way the dispatcher does."""

import struct
from urllib.request import urlopen

import msgspec
import pytest

from common import tensors
from common.job_states import Failure
from common.tensors import Datatype, Tensor
from deploy.local.servers.triton import Triton as Server
from services.dispatcher.triton.client import TritonClient
from services.dispatcher.triton.connection import Access
from services.dispatcher.triton.errors import InferenceError
from services.dispatcher.triton.inference import infer
from services.dispatcher.triton.request import InferenceRequest
from services.dispatcher.triton.responses import InferenceResult

LIMIT = 1024 * 1024  # bytes of a message, and of outputs as JSON


def connect(server: Server) -> TritonClient:
    """Return a client that may load models, too."""
    return TritonClient(server.grpc_address, LIMIT, Access(repository_key=server.repository_key))


def text(name: str, value: str | bytes) -> Tensor:
    raw = value.encode() if isinstance(value, str) else value
    return Tensor(name, Datatype.BYTES, [1], struct.pack("<I", len(raw)) + raw)


def integer(name: str, value: int, shape: tuple[int, ...] = (1,)) -> Tensor:
    return Tensor(name, Datatype.INT32, list(shape), struct.pack("<i", value))


async def run(client: TritonClient, model: str, *given: Tensor, timeout: float = 30.0) -> InferenceResult:
    described = await client.describe(model, "1")
    assert described is not None
    return await infer(
        client, InferenceRequest("job_1", model, None, tensors.pack(list(given)), None, timeout, LIMIT), described
    )


async def fail(client: TritonClient, model: str, *given: Tensor, timeout: float = 30.0) -> Failure:
    with pytest.raises(InferenceError) as caught:
        await run(client, model, *given, timeout=timeout)
    assert not caught.value.outage
    return caught.value.failure


def count_batches(metrics_url: str) -> float:
    with urlopen(metrics_url, timeout=5) as page:  # noqa: S310 -- our own server
        lines: list[str] = page.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("work_batches_total"))


def read(result: InferenceResult) -> list[list[object]]:
    return [output["data"] for output in msgspec.json.decode(result.outputs)]
