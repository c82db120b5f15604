"""The responses of Triton's backends for vLLM and TensorRT-LLM, from stubs with their inputs and outputs."""

from collections.abc import AsyncIterator, Iterator

import msgspec
import pytest

from common.tensors import Datatype, Tensor
from deploy.local.processes.ports import free_ports
from deploy.local.servers.triton import Triton as Server
from deploy.local.settings import Settings
from services.dispatcher.triton.client import TritonClient
from services.dispatcher.triton.responses import InferenceResult
from tests.integration.dispatcher.inference import connect, fail, integer, run, text
from tests.support.language_models import STUBS, join_text

VLLM, TENSORRT = "vllm_model", "tensorrt_llm_bls"
PROMPT = "one two three"
COUNTS = ("return_num_input_tokens", "return_num_output_tokens")


@pytest.fixture(scope="module")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    grpc_port, http_port, metrics_port = free_ports(3)
    directory = tmp_path_factory.mktemp("language")
    server = Server(directory, STUBS, grpc_port, http_port, metrics_port, Settings().triton_venv)
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.fixture
async def client(triton: Server) -> AsyncIterator[TritonClient]:
    connected = connect(triton)
    yield connected
    await connected.close()


def yes(name: str) -> Tensor:
    return Tensor(name, Datatype.BOOL, [1], b"\x01")


def parameters(**given: object) -> Tensor:
    return text("sampling_parameters", msgspec.json.encode(given))


def batched(*given: Tensor) -> list[Tensor]:
    """Return tensors as a batch of one, which TensorRT-LLM's models take."""
    return [msgspec.structs.replace(tensor, shape=[1, *tensor.shape]) for tensor in given]


def values(result: InferenceResult, name: str) -> list[object]:
    """Return the only element of an output, of each response that has it."""
    outputs = msgspec.json.decode(result.outputs)
    return [each["data"][0] for each in outputs if each["name"] == name]


def said(result: InferenceResult) -> str:
    return join_text(msgspec.json.decode(result.outputs), "text_output")


async def test_vllm_streams_and_tells_the_usage_and_why_it_ended(client: TritonClient) -> None:
    given = (text("text_input", PROMPT), yes("stream"), yes("return_finish_reason"), *map(yes, COUNTS))
    result = await run(client, VLLM, *given)
    assert values(result, "text_output") == ["one", " two", " three", ""]
    assert values(result, "finish_reason") == ["None", "None", "None", "stop"]
    assert values(result, "num_input_tokens") == [3] * 4
    assert values(result, "num_output_tokens") == [1] * 4
    cut = await run(client, VLLM, *given, parameters(max_tokens=2))
    assert (said(cut), values(cut, "finish_reason")) == ("one two", ["None", "length"])


async def test_a_shape_without_dimensions_is_completed(client: TritonClient) -> None:
    """Without this, Charonia would refuse what both backends return: it is not as they declare it."""
    vllm = await run(client, VLLM, text("text_input", PROMPT), *map(yes, COUNTS))
    given = batched(text("text_input", PROMPT), integer("max_tokens", 9), *map(yes, COUNTS))
    tensorrt = await run(client, TENSORRT, *given)
    found = {each["name"]: each["shape"] for each in msgspec.json.decode(vllm.outputs)}
    assert found == {"text_output": [1], "num_input_tokens": [1], "num_output_tokens": [1]}
    found = {each["name"]: each["shape"] for each in msgspec.json.decode(tensorrt.outputs)}
    assert found == {"text_output": [1, 1], "num_input_tokens": [1, 1], "num_output_tokens": [1, 1]}


async def test_vllm_repeats_the_prompt_unless_told_otherwise(client: TritonClient) -> None:
    asked = (text("text_input", PROMPT), parameters(stop=["three"]))
    assert said(await run(client, VLLM, *asked)) == f"{PROMPT}one two "
    assert said(await run(client, VLLM, *asked, yes("exclude_input_in_output"))) == "one two "


async def test_vllm_answers_wrong_requests_with_its_own_words(client: TritonClient) -> None:
    failure = await fail(client, VLLM, text("text_input", PROMPT), parameters(max_completion_tokens=5))
    assert failure.message == "Error generating stream: Unexpected keyword argument 'max_completion_tokens'"
    not_excluded = Tensor("exclude_input_in_output", Datatype.BOOL, [1], b"\x00")
    failure = await fail(client, VLLM, text("text_input", PROMPT), yes("stream"), not_excluded)
    assert "When streaming" in failure.message


async def test_tensorrt_llm_streams_and_ends_with_the_stop_word(client: TritonClient) -> None:
    asked = [text("text_input", PROMPT), integer("max_tokens", 9), yes("stream"), *map(yes, COUNTS)]
    result = await run(client, TENSORRT, *batched(*asked))
    assert values(result, "text_output") == ["one", " two", " three"]
    assert (values(result, "num_input_tokens"), values(result, "num_output_tokens")) == ([3] * 3, [1] * 3)
    stop = text("stop_words", "two")
    assert said(await run(client, TENSORRT, *batched(*asked, stop))) == "one two"
    whole = [text("text_input", PROMPT), integer("max_tokens", 1)]
    assert said(await run(client, TENSORRT, *batched(*whole))) == f"{PROMPT}one"
    assert said(await run(client, TENSORRT, *batched(*whole, yes("exclude_input_in_output")))) == "one"


@pytest.mark.parametrize("model", [VLLM, TENSORRT])
async def test_an_engine_may_die_in_the_middle(client: TritonClient, model: str) -> None:
    asked = [text("text_input", f"{PROMPT} $fail"), yes("stream")]
    given = asked if model == VLLM else batched(*asked, integer("max_tokens", 9))
    assert "the engine died" in (await fail(client, model, *given)).message
