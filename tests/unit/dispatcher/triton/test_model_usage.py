"""Tokens and reasons that language models tell, as the gateway reads them too."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest

from common import tensors
from common.tensors import CODES, SIZES, Datatype, Tensor
from common.views.outputs import OutputTensor
from services.dispatcher.triton.model_usage import (
    KIND,
    MAX_JSON,
    MOST,
    ModelUsage,
    UsageReader,
    find_limit,
    open_reader,
)
from services.dispatcher.triton.model_version import BACKEND, ModelVersion
from services.gateway.openai import speakers
from services.gateway.openai.kinds.known import BACKENDS
from services.gateway.openai.kinds.pieces import Transcript, read_piece

Piece: TypeAlias = Mapping[str, Sequence[Any]]


def pack_bytes(elements: Sequence[bytes]) -> bytes:
    return b"".join(len(each).to_bytes(4, "little") + each for each in elements)


def to_tensor(name: str, elements: Sequence[Any], datatype: Datatype = Datatype.INT32) -> OutputTensor:
    if elements and isinstance(elements[0], bytes):
        return OutputTensor(name, Datatype.BYTES, [len(elements)], memoryview(pack_bytes(elements)))
    data = np.array(elements, CODES[datatype]).tobytes()
    assert len(data) == SIZES[datatype] * len(elements)
    return OutputTensor(name, datatype, [len(elements)], data)


def read(*pieces: Piece, inputs: Sequence[Tensor] = ()) -> ModelUsage:
    reader = UsageReader()
    for piece in pieces:
        reader.add([to_tensor(name, elements) for name, elements in piece.items()])
    return reader.result(tensors.pack(list(inputs)))


VLLM: dict[str, Sequence[Any]] = {"text_output": [b"one"], "num_input_tokens": [3], "num_output_tokens": [1]}
USAGE = b'{"prompt_tokens":7,"completion_tokens":9,"total_tokens":16}'
ANSWERS: dict[str, tuple[list[Piece], ModelUsage]] = {
    "vllm": ([VLLM | {"finish_reason": [b"None"]}, VLLM | {"finish_reason": [b"length"]}], ModelUsage(3, 2, "length")),
    "without a reason": ([VLLM, VLLM], ModelUsage(3, 2)),
    "in its own words": (
        [{"text": [b"one"], "usage": [b"null"]}, {"text": [b""], "finish_reason": [b"stop"], "usage": [USAGE]}],
        ModelUsage(7, 9, "stop"),
    ),
    "nothing": ([{"text": [b"one"]}], ModelUsage()),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_the_dispatcher_counts_what_the_gateway_shows(name: str) -> None:
    pieces, expected = ANSWERS[name]
    assert read(*pieces) == expected
    transcript = Transcript()
    for piece in pieces:
        transcript.add(read_piece(piece))
    usage = transcript.usage
    shown = (None, None) if usage is None else (usage.prompt_tokens, usage.completion_tokens)
    assert shown == (expected.prompt_tokens, expected.completion_tokens)
    assert transcript.finish_reason == (expected.finish_reason or "stop")


def test_the_tokens_of_embedded_texts_are_those_of_a_prompt() -> None:
    assert read({"embedding": [1], "tokens": [3, 4]}) == ModelUsage(7)


@pytest.mark.parametrize(
    ("name", "value", "datatype"),
    [
        ("max_tokens", np.array([2], np.int32).tobytes(), Datatype.INT32),
        ("sampling_parameters", pack_bytes([b'{"max_tokens":2,"seed":1}']), Datatype.BYTES),
        ("request", pack_bytes([b'{"messages":[],"max_tokens":2}']), Datatype.BYTES),
    ],
)
def test_a_text_with_as_many_tokens_as_allowed_was_cut(name: str, value: bytes, datatype: Datatype) -> None:
    inputs = [Tensor("text_input", Datatype.BYTES, [1], pack_bytes([b"hi"])), Tensor(name, datatype, [1], value)]
    assert find_limit(tensors.pack(inputs)) == 2
    assert read(VLLM, VLLM, inputs=inputs).finish_reason == "length"
    assert read(VLLM, inputs=inputs).finish_reason is None
    assert read(VLLM | {"finish_reason": [b"stop"]}, VLLM, inputs=inputs).finish_reason == "stop"


@pytest.mark.parametrize(
    ("name", "elements"),
    [
        ("usage", [b"{"]),
        ("usage", [b'{"prompt_tokens":"x"}']),
        ("usage", [b"[" * 5000]),
        ("usage", [b'{"prompt_tokens":1,"x":"%b"}' % (b"x" * MAX_JSON)]),
        ("usage", [1]),
        ("num_input_tokens", [b"3"]),
        ("finish_reason", [1]),
        ("finish_reason", []),
    ],
)
def test_what_is_not_of_its_type_is_not_counted(name: str, elements: Sequence[Any]) -> None:
    assert read({name: elements}) == ModelUsage()


def test_numbers_fit_in_a_row() -> None:
    reader = UsageReader()
    reader.add([to_tensor("num_input_tokens", [2**63 - 1], Datatype.INT64), to_tensor("num_output_tokens", [-1])])
    assert reader.result(tensors.pack([])) == ModelUsage(MOST, 0)


@pytest.mark.parametrize(
    ("settings", "speaks"),
    [
        ({}, False),
        ({BACKEND: "python"}, False),
        ({BACKEND: "vllm"}, True),
        ({BACKEND: "vllm", KIND: "none"}, False),
        ({BACKEND: "python", KIND: "messages"}, True),
    ],
)
def test_only_language_models_are_read(settings: dict[str, str], speaks: bool) -> None:
    model = ModelVersion("m", "1", False, 0, 1, [], [], settings)
    assert (open_reader(model) is not None) is speaks


def test_the_settings_are_those_of_the_gateway() -> None:
    assert (speakers.KIND, speakers.OFF, list(BACKENDS)) == (KIND, "none", ["vllm"])
