"""The client of Triton's gRPC API against a real Triton and the models of deploy/models."""

import asyncio
import struct

import msgspec
import pytest

from common.tensors import Datatype, Signature, Tensor
from deploy.local.triton import Triton as Server
from services.dispatcher.triton import Model, Triton
from tests.integration.dispatcher.asking import ask, count_batches, fail, integer, read, text
from tests.integration.waiting import until

MODELS = {"echo", "mirror", "work", "tokens", "faulty", "ocr", "ocr_stream", "work_small"}


async def test_every_demo_model_is_ready(client: Triton) -> None:
    assert await client.list_ready() >= {(name, "1") for name in MODELS}


async def test_a_description_has_the_batch_dimension_and_what_is_optional(client: Triton) -> None:
    x, y = Signature("x", Datatype.FP32, [-1, -1]), Signature("y", Datatype.FP32, [-1, -1])
    assert await client.describe("echo", "1") == Model("echo", "1", False, 64, 1, [x], [y])
    tokens = await client.describe("tokens", "1")
    assert tokens is not None
    assert tokens.decoupled
    assert [(each.name, each.shape, each.optional) for each in tokens.inputs] == [
        ("text", [1], False),
        ("delay_ms", [1], True),
    ]


@pytest.mark.parametrize("name", sorted(MODELS))
async def test_every_demo_model_is_described(client: Triton, name: str) -> None:
    model = await client.describe(name, "1")
    assert model is not None
    assert (model.name, model.decoupled) == (name, name in {"tokens", "ocr_stream"})
    assert model.inputs
    assert model.outputs


@pytest.mark.parametrize(("name", "version"), [("nope", "1"), ("echo", "7")])
async def test_what_is_gone_has_no_description(client: Triton, name: str, version: str) -> None:
    assert await client.describe(name, version) is None


async def test_a_model_answers(client: Triton) -> None:
    answer = await ask(client, "echo", Tensor("x", Datatype.FP32, [2, 2], struct.pack("<4f", 1, 2, 3, 4.5)))
    assert answer.version == "1"
    assert msgspec.json.decode(answer.outputs) == [
        {"name": "y", "datatype": "FP32", "shape": [2, 2], "data": [2.0, 4.0, 6.0, 9.0]}
    ]


async def test_a_decoupled_model_answers_as_often_as_it_likes(client: Triton) -> None:
    assert read(await ask(client, "tokens", text("text", b"one \xff three"))) == [
        ["one"],
        [{"base64": "/w=="}],
        ["three"],
    ]
    assert read(await ask(client, "tokens", text("text", ""))) == []


async def test_many_calls_at_once_get_each_its_own_answer(client: Triton) -> None:
    asked = [Tensor("x", Datatype.FP32, [1, 1], struct.pack("<f", number)) for number in range(100)]
    answers = await asyncio.gather(*(ask(client, "echo", tensor) for tensor in asked))
    assert [read(answer) for answer in answers] == [[[2.0 * number]] for number in range(100)]


async def test_an_attempt_ends_at_its_timeout_and_its_model_hears_of_it(client: Triton) -> None:
    given = (text("text", "a b c d e f g h"), integer("delay_ms", 5_000))
    started = asyncio.get_running_loop().time()
    failure = await fail(client, "tokens", *given, timeout=0.3)
    assert (failure.code, failure.retryable) == ("timeout", True)
    # Its only instance is free again long before the eight words could have been said.
    assert read(await ask(client, "tokens", text("text", "next"))) == [["next"]]
    assert asyncio.get_running_loop().time() - started < 4.5


async def test_a_cancelled_attempt_frees_the_model(client: Triton, triton: Server) -> None:
    async def executes() -> bool:
        return await asyncio.to_thread(count_batches, triton.metrics_url) > before

    before = await asyncio.to_thread(count_batches, triton.metrics_url)
    started = asyncio.get_running_loop().time()
    running = asyncio.create_task(ask(client, "work", integer("ms", 20_000, (1, 1))))
    await until(executes, "the model runs")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert read(await ask(client, "work", integer("ms", 1, (1, 1)))) == [[1]]
    assert asyncio.get_running_loop().time() - started < 15
