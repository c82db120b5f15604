"""Which models speak OpenAI's API, and why others do not."""

from http import HTTPStatus

import msgspec
import pytest

from services.gateway.http.problems import Problem
from services.gateway.models.store import ModelVersion
from services.gateway.openai.speakers import MAX_TEMPLATE, Silent, find_speaker, list_speakers, read_speaker
from services.gateway.openai.templates.named import CHATML
from tests.unit.gateway.openai.speaking import (
    ECHO,
    EMBEDDINGS,
    FP32,
    MESSAGES,
    TENSORRT,
    VLLM,
    VLLM_INPUTS,
    given,
    model,
)

TEXT = [given("text_output", shape=[-1])]


def test_the_backend_of_vllm_is_enough() -> None:
    speaker = read_speaker(model("llm", VLLM_INPUTS, TEXT, backend="vllm"))
    assert (speaker.kind, speaker.template, speaker.max_tokens) == ("vllm", None, 4096)


def test_parameters_say_how_a_model_speaks() -> None:
    assert read_speaker(VLLM).template == CHATML
    assert (read_speaker(TENSORRT).kind, read_speaker(TENSORRT).max_tokens) == ("tensorrtllm", 77)
    own = read_speaker(
        model("llm", VLLM_INPUTS, TEXT, backend="vllm", chat_template="{{ messages }}", eos_token="</s>")
    )
    assert (own.template, own.is_custom, own.variables["eos_token"]) == ("{{ messages }}", True, "</s>")


@pytest.mark.parametrize(
    ("silent", "reason"),
    [
        (model("m", VLLM_INPUTS, TEXT, openai="gpt"), "`charonia.openai` is 'gpt'; expected one of `vllm`"),
        (model("m", [], TEXT, openai="vllm"), "has an input 'text_input' of BYTES"),
        (model("m", VLLM_INPUTS, [], openai="vllm"), "has an output 'text_output' of BYTES"),
        (model("m", [given("request", FP32)], [given("text")], openai="messages"), "has an input 'request' of BYTES"),
        (model("m", [*VLLM_INPUTS, given("more")], TEXT, openai="vllm"), "its input 'more' is not optional"),
        (
            model("m", VLLM_INPUTS, TEXT, openai="vllm", chat_template="chatlm"),
            "expected Jinja text or one of `chatml`",
        ),
        (model("m", VLLM_INPUTS, TEXT, openai="vllm", chat_template="{{ x"), "is no Jinja template: line 1"),
        (model("m", VLLM_INPUTS, TEXT, openai="vllm", chat_template="{{" + "(" * 9999 + "}}"), "no Jinja template"),
        (model("m", VLLM_INPUTS, TEXT, openai="vllm", chat_template="{" * (MAX_TEMPLATE + 1)), "has more than 32768"),
        (model("m", VLLM_INPUTS, TEXT, openai="vllm", max_tokens="many"), "`charonia.max_tokens` is 'many'"),
        (model("m", VLLM_INPUTS, TEXT, openai="vllm", max_tokens="0"), "expected a whole number from 1"),
        (model("m", [given("request")], [given("text")], openai="messages", chat_template="chatml"), "has no use"),
        (model("m", [given("text", shape=[-1, 2])], EMBEDDINGS.outputs, openai="embeddings"), "shape [batch, 1]"),
        (model("m", EMBEDDINGS.inputs, [given("embedding", FP32, [3])], openai="embeddings"), "shape [batch, n]"),
    ],
)
def test_a_wrong_configuration_makes_a_model_silent(silent: ModelVersion, reason: str) -> None:
    with pytest.raises(Silent) as raised:
        read_speaker(silent)
    assert reason in raised.value.reason
    assert raised.value.is_wrong
    with pytest.raises(Problem) as refused:
        find_speaker({"m": [silent]}, "m")
    assert (refused.value.status, refused.value.code) == (HTTPStatus.NOT_FOUND, "model_not_found")
    assert reason in refused.value.detail


def test_another_model_is_silent_on_purpose() -> None:
    with pytest.raises(Silent) as raised:
        read_speaker(ECHO)
    assert not raised.value.is_wrong
    off = model("llm", VLLM_INPUTS, TEXT, backend="vllm", openai="none")
    with pytest.raises(Silent):
        read_speaker(off)


def test_only_models_that_speak_are_listed_and_found() -> None:
    never = msgspec.structs.replace(MESSAGES, name="never", declared=False)
    models = {each.name: [each] for each in (VLLM, ECHO, never)}
    assert [speaker.model.name for speaker in list_speakers(models)] == ["llm"]
    with pytest.raises(Problem, match="models that speak this API: 'llm'"):
        find_speaker(models, "gpt-4o")
    longer = {"llama-chat": [msgspec.structs.replace(VLLM, name="llama-chat")]}
    with pytest.raises(Problem, match="did you mean 'llama-chat'"):
        find_speaker(longer, "lama-chat")
