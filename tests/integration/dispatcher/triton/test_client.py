"""The client against a real Triton with the models of deploy/models."""

import asyncio
import struct

import msgspec
import pytest

from common.tensors import Datatype, Signature, Tensor
from deploy.local.servers.triton import Triton as Server
from services.dispatcher.triton.client import TritonClient
from services.dispatcher.triton.model_version import ModelVersion
from tests.integration.dispatcher.inference import count_batches, fail, integer, read, run, text
from tests.integration.waiting import until

MODELS = {"echo", "mirror", "work", "tokens", "faulty", "ocr", "ocr_stream", "work_small", "excerpt", "words"}


async def test_every_demo_model_is_ready(client: TritonClient) -> None:
    assert await client.list_ready() >= {(name, "1") for name in MODELS}


async def test_a_description_has_the_batch_dimension_and_what_is_optional(client: TritonClient) -> None:
    x, y = Signature("x", Datatype.FP32, [-1, -1]), Signature("y", Datatype.FP32, [-1, -1])
    echo = ModelVersion("echo", "1", False, 64, 1, [x], [y], {"backend": "python"})
    assert await client.describe("echo", "1") == echo
    tokens = await client.describe("tokens", "1")
    assert tokens is not None
    assert tokens.decoupled
    assert [(each.name, each.shape, each.optional) for each in tokens.inputs] == [
        ("text", [1], False),
        ("delay_ms", [1], True),
    ]


async def test_a_description_says_which_inputs_are_references(client: TritonClient) -> None:
    described = await client.describe("excerpt", "1")
    assert described is not None
    assert [(each.name, each.reference) for each in described.inputs] == [
        *(("audio", True), ("offset", False), ("length", False)),
    ]


@pytest.mark.parametrize("name", sorted(MODELS))
async def test_every_demo_model_is_described(client: TritonClient, name: str) -> None:
    model = await client.describe(name, "1")
    assert model is not None
    assert (model.name, model.decoupled) == (name, name in {"tokens", "ocr_stream"})
    assert model.inputs
    assert model.outputs


@pytest.mark.parametrize(("name", "version"), [("nope", "1"), ("echo", "7")])
async def test_a_missing_version_has_no_description(client: TritonClient, name: str, version: str) -> None:
    assert await client.describe(name, version) is None


async def test_a_model_answers(client: TritonClient) -> None:
    result = await run(client, "echo", Tensor("x", Datatype.FP32, [2, 2], struct.pack("<4f", 1, 2, 3, 4.5)))
    assert result.version == "1"
    assert msgspec.json.decode(result.outputs) == [
        {"name": "y", "datatype": "FP32", "shape": [2, 2], "data": [2.0, 4.0, 6.0, 9.0]}
    ]


async def test_a_decoupled_model_returns_any_number_of_responses(client: TritonClient) -> None:
    assert read(await run(client, "tokens", text("text", b"one \xff three"))) == [
        ["one"],
        [{"base64": "IP8="}],
        [" three"],
    ]
    assert read(await run(client, "tokens", text("text", ""))) == []


async def test_concurrent_calls_get_their_own_results(client: TritonClient) -> None:
    inputs = [Tensor("x", Datatype.FP32, [1, 1], struct.pack("<f", number)) for number in range(100)]
    results = await asyncio.gather(*(run(client, "echo", tensor) for tensor in inputs))
    assert [read(result) for result in results] == [[[2.0 * number]] for number in range(100)]


async def test_an_attempt_ends_at_its_timeout_and_frees_the_model(client: TritonClient) -> None:
    given = (text("text", "a b c d e f g h"), integer("delay_ms", 30_000))
    started = asyncio.get_running_loop().time()
    failure = await fail(client, "tokens", *given, timeout=0.3)
    assert (failure.code, failure.retryable) == ("timeout", True)
    # The only instance is free again long before its delay has passed.
    assert read(await run(client, "tokens", text("text", "next"))) == [["next"]]
    assert asyncio.get_running_loop().time() - started < 20


async def test_a_cancelled_attempt_frees_the_model(client: TritonClient, triton: Server) -> None:
    async def executes() -> bool:
        return await asyncio.to_thread(count_batches, triton.metrics_url) > before

    before = await asyncio.to_thread(count_batches, triton.metrics_url)
    started = asyncio.get_running_loop().time()
    running = asyncio.create_task(run(client, "work", integer("ms", 20_000, (1, 1))))
    await until(executes, "the model runs")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert read(await run(client, "work", integer("ms", 1, (1, 1)))) == [[1]]
    assert asyncio.get_running_loop().time() - started < 15
