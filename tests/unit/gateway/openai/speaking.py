"""Models that speak OpenAI's API, as dispatchers declare them, and the context of a submit with them."""

from collections.abc import Mapping
from typing import Any

import msgspec

from common import ids, tensors
from common.security.ssrf import AddressPolicy
from common.tensors import Datatype, Signature
from services.gateway.jobs.parse import SubmitContext
from services.gateway.models.store import ModelVersion
from services.gateway.openai.calls.translation import Translate, Translated
from tests.unit.gateway.parsing import TRACEPARENT

BYTES, BOOL, INT32, FP32 = Datatype.BYTES, Datatype.BOOL, Datatype.INT32, Datatype.FP32
FLAGS = ("stream", "exclude_input_in_output", "return_finish_reason", "return_num_input_tokens")
ONE = [1]


def given(name: str, datatype: Datatype = BYTES, shape: list[int] = ONE, *, optional: bool = False) -> Signature:
    return Signature(name, datatype, shape, optional)


def model(name: str, inputs: list[Signature], outputs: list[Signature], **settings: str) -> ModelVersion:
    """Return a model. The names of settings are without their prefix."""
    named = {name if name == "backend" else f"charonia.{name}": value for name, value in settings.items()}
    return ModelVersion(name, "1", True, True, 0, inputs, outputs, settings=named)


VLLM_INPUTS = [
    given("text_input"),
    given("sampling_parameters", optional=True),
    *(given(name, BOOL, optional=True) for name in FLAGS),
]
VLLM = model("llm", VLLM_INPUTS, [given("text_output", shape=[-1])], backend="vllm", chat_template="chatml")
TENSORRT = msgspec.structs.replace(
    model(
        "trt",
        [
            given("text_input", shape=[-1, 1]),
            given("max_tokens", INT32, [-1, 1]),
            given("stop_words", shape=[-1, -1], optional=True),
            given("temperature", FP32, [-1, 1], optional=True),
            given("random_seed", Datatype.UINT64, [-1, 1], optional=True),
            given("stream", BOOL, [-1, 1], optional=True),
        ],
        [given("text_output", shape=[-1, -1])],
        openai="tensorrtllm",
        chat_template="llama3",
        max_tokens="77",
    ),
    max_batch_size=4,
)
MESSAGES = model("talk", [given("request")], [given("text")], openai="messages")
TOOLS = model(
    "tools",
    [given("request")],
    [given("text"), given("tool_calls")],
    openai="messages",
    openai_parameters="response_format, images",
)
EMBEDDINGS = msgspec.structs.replace(
    model("embed", [given("text", shape=[-1, 1])], [given("embedding", FP32, [-1, 3])], openai="embeddings"),
    max_batch_size=2,
)
ECHO = model("echo", [given("x", FP32, [-1])], [given("x", FP32, [-1])], backend="python")
ALL = (VLLM, TENSORRT, MESSAGES, TOOLS, EMBEDDINGS, ECHO)


def make_context(*models: ModelVersion) -> SubmitContext:
    return SubmitContext(ids.new(), TRACEPARENT, {each.name: [each] for each in models or ALL}, AddressPolicy())


def run(translate: Translate, request: Mapping[str, Any], *models: ModelVersion, in_worker: bool = False) -> Translated:
    """Translate a request of OpenAI."""
    return translate(msgspec.json.encode(request), make_context(*models), in_worker)


def read_inputs(translated: Translated) -> dict[str, Any]:
    """Return the inputs of the job: text, or bytes of numbers."""
    found = {}
    for each in tensors.unpack(translated.job.tensors):
        assert isinstance(each.data, bytes)
        found[each.name] = each.data[4:].decode() if each.datatype is BYTES else each.data
    return found
