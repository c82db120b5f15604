"""Embeddings become jobs, and jobs embeddings."""

import struct
from array import array
from base64 import b64decode
from typing import Any

import msgspec
import pytest

from common import tensors
from services.gateway.http.problems import Problem
from services.gateway.openai.calls.translation import Shown
from services.gateway.openai.embeddings.translation import reshow, translate, write_list
from services.gateway.openai.problems import shape_error
from tests.unit.gateway.openai.speaking import EMBEDDINGS, run

NUMBERS = [1.0, 2.0, 0.5, 4.0]


def ask(**more: Any) -> dict[str, Any]:
    return {"model": "embed", "input": ["a", "b"], **more}


def test_all_texts_are_in_one_job() -> None:
    (tensor,) = tensors.unpack(run(translate, ask()).job.tensors)
    assert (tensor.name, tensor.shape, tensor.data) == ("text", [2, 1], b"\x01\x00\x00\x00a\x01\x00\x00\x00b")
    (single,) = tensors.unpack(run(translate, ask(input="a", dimensions=3)).job.tensors)
    assert single.shape == [1, 1]


@pytest.mark.parametrize(
    ("more", "param", "text"),
    [
        ({"input": [1, 2]}, "input", "send tokens as text"),
        ({"input": [[1]]}, "input", "a list of texts"),
        ({"input": ["a"] * 3}, "input", "has 3 texts; the model takes 2 at a time"),
        ({"dimensions": 2}, "dimensions", "the model has 3"),
        ({"model": "llm"}, "model", "it writes text"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(more: dict[str, Any], param: str, text: str) -> None:
    with pytest.raises(Problem) as raised:
        run(translate, ask(**more))
    status, body = shape_error(raised.value)
    assert (status, body.error.code, body.error.param) == (400, "unsupported_parameter", param)
    assert text in body.error.message


def test_a_model_that_does_not_tell_its_length_has_no_dimensions() -> None:
    output = msgspec.structs.replace(EMBEDDINGS.outputs[0], shape=[-1, -1])
    with pytest.raises(Problem, match="does not say how many it has"):
        run(translate, ask(dimensions=3), msgspec.structs.replace(EMBEDDINGS, outputs=[output]))


@pytest.mark.parametrize("numbers", [NUMBERS, array("f", NUMBERS)])
def test_vectors_are_numbers_or_base64(numbers: Any) -> None:
    shown = Shown(model="embed", texts=2)
    answer = msgspec.json.decode(write_list("embed", {"embedding": numbers, "tokens": [1, 2]}, shown))
    assert [(each["index"], each["embedding"]) for each in answer["data"]] == [(0, [1, 2]), (1, [0.5, 4])]
    assert answer["usage"] == {"prompt_tokens": 3, "total_tokens": 3}
    packed = msgspec.json.decode(write_list("embed", {"embedding": numbers}, Shown(model="m", texts=2, is_base64=True)))
    assert struct.unpack("<2f", b64decode(packed["data"][1]["embedding"])) == (0.5, 4)
    assert packed["usage"] is None


@pytest.mark.parametrize("outputs", [{}, {"embedding": []}, {"embedding": [1.0, 2.0, 3.0]}])
def test_other_outputs_are_an_error(outputs: Any) -> None:
    with pytest.raises(Problem, match="the model returned"):
        write_list("embed", outputs, Shown(model="embed", texts=2))


def test_tokens_that_are_no_numbers_are_an_error() -> None:
    with pytest.raises(Problem, match="'tokens' of the model must be whole numbers"):
        write_list("embed", {"embedding": NUMBERS, "tokens": [float("nan"), 1]}, Shown(model="embed", texts=2))


def test_a_repeated_request_is_answered_alike() -> None:
    body = ask(encoding_format="base64")
    assert reshow(msgspec.json.encode({**body, "later": 1})) == run(translate, body).shown
