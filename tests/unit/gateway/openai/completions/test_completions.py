"""Completions become jobs, and jobs completions."""

from typing import Any

import msgspec
import pytest

from services.gateway.http.problems import Problem
from services.gateway.openai.calls.translation import Shown
from services.gateway.openai.completions.rendering import CompletionChunkWriter, write_completion
from services.gateway.openai.completions.translation import MAX_ECHO, reshow, translate
from services.gateway.openai.kinds.pieces import Transcript
from services.gateway.openai.problems import shape_error
from tests.unit.gateway.openai.speaking import read_inputs, run
from tests.unit.gateway.samples import ROW


def ask(**more: Any) -> dict[str, Any]:
    return {"model": "llm", "prompt": "once", **more}


@pytest.mark.parametrize("prompt", ["once", ["once"]])
def test_the_model_gets_the_prompt_as_it_is(prompt: Any) -> None:
    inputs = read_inputs(run(translate, ask(prompt=prompt)))
    assert (inputs["text_input"], msgspec.json.decode(inputs["sampling_parameters"])) == ("once", {"max_tokens": 16})


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"prompt": ["a", "b"]}, "prompt"),
        ({"prompt": [1, 2]}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"n": 2}, "n"),
        ({"best_of": 2}, "best_of"),
        ({"logprobs": 0}, "logprobs"),
        ({"suffix": "x"}, "suffix"),
        ({"logit_bias": {"1": 1}}, "logit_bias"),
        ({"stream_options": {}}, "stream_options"),
        ({"echo": True, "prompt": "x" * (MAX_ECHO + 1)}, "echo"),
        ({"model": "talk"}, "model"),
        ({"model": "embed"}, "model"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(more: dict[str, Any], param: str) -> None:
    with pytest.raises(Problem) as raised:
        run(translate, ask(**more))
    status, body = shape_error(raised.value)
    assert (status, body.error.code, body.error.param) == (400, "unsupported_parameter", param)


def test_an_echo_begins_with_the_prompt() -> None:
    shown = reshow(msgspec.json.encode(ask(echo=True, later=1)))
    assert shown == run(translate, ask(echo=True)).shown
    assert write_completion(ROW, shown, " upon", Transcript()).choices[0].text == "once upon"
    writer = CompletionChunkWriter(ROW, shown)
    chunks = [msgspec.json.decode(chunk) for chunk in (writer.write_text(" upon"), *writer.write_end(Transcript()))]
    assert [chunk["choices"][0]["text"] for chunk in chunks] == ["once upon", ""]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, "stop"]


def test_the_usage_comes_last_if_asked_for() -> None:
    writer = CompletionChunkWriter(ROW, Shown(model="m", include_usage=True))
    end, usage = (msgspec.json.decode(chunk) for chunk in writer.write_end(Transcript()))
    assert (end["usage"], usage["choices"], usage["usage"]) == (None, [], None)
