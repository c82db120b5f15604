"""What the model `chat` takes of a chat request, and what it refuses."""

import importlib.util
import json
from types import ModuleType
from typing import Any

import pytest

from deploy.local.settings import LANGUAGE_MODELS

HELLO = [{"role": "user", "content": "Hello"}]


def load() -> ModuleType:
    """Return the file as a module: Triton runs it, so it is in no package."""
    spec = importlib.util.spec_from_file_location("chat_request", LANGUAGE_MODELS / "chat" / "1" / "chat_request.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MODULE = load()


def read(**request: object) -> dict[str, Any]:
    found: dict[str, Any] = MODULE.read_request(json.dumps({"messages": HELLO} | request).encode())
    return found


def refuse(text: bytes) -> str:
    with pytest.raises(MODULE.InvalidRequest) as caught:
        MODULE.read_request(text)
    return str(caught.value)


def test_every_field_that_the_model_knows_is_passed_on() -> None:
    found = read(max_tokens=5, temperature=0, top_p=1, seed=7, stop="x", presence_penalty=-2, frequency_penalty=2)
    assert found == {
        "messages": HELLO,
        "max_tokens": 5,
        "temperature": 0.0,
        "top_p": 1.0,
        "seed": 7,
        "stop": ["x"],
        "presence_penalty": -2.0,
        "frequency_penalty": 2.0,
    }


def test_the_defaults_are_those_of_the_models_authors() -> None:
    assert read() == {"messages": HELLO, "temperature": 0.2, "top_p": 0.9}


def test_the_newer_name_of_max_tokens_wins() -> None:
    assert read(max_completion_tokens=3)["max_tokens"] == 3
    assert read(max_completion_tokens=3, max_tokens=9)["max_tokens"] == 3


@pytest.mark.parametrize("seed", [-1, 2**32, 2**63 - 1])
def test_every_seed_of_openai_is_one_of_llama_cpp(seed: int) -> None:
    assert 0 <= read(seed=seed)["seed"] < 2**32 - 1


def test_what_changes_nothing_may_be_there() -> None:
    absent = {"tools": [], "logprobs": False, "logit_bias": {}, "top_logprobs": None, "tool_choice": "none"}
    same = {"n": 1, "response_format": {"type": "text"}, "modalities": ["text"]}
    caller = {"model": "chat", "stream": True, "stream_options": {"include_usage": True}, "user": "u", "store": True}
    assert read(**absent, **same, **caller, metadata={"a": "b"}, service_tier="flex") == read()


def test_messages_have_all_roles_and_may_have_parts() -> None:
    given = [
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": "c", "refusal": None, "annotations": []},
        {"role": "user", "content": ""},
    ]
    assert read(messages=given)["messages"] == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "ab"},
        {"role": "assistant", "content": "c"},
        {"role": "user", "content": ""},
    ]


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        ({"tools": [{"type": "function"}]}, "tools: this model cannot do that"),
        ({"n": 2}, "n: this model cannot do that"),
        ({"logprobs": True}, "logprobs: this model cannot do that"),
        ({"response_format": {"type": "json_object"}}, "response_format: this model cannot do that"),
        ({"bogus": 1}, "bogus: this model cannot do that; leave it out"),
        ({"max_tokens": 0}, "max_tokens: must be a whole number of at least 1"),
        ({"max_tokens": True}, "max_tokens: must be a whole number of at least 1"),
        ({"max_tokens": 1.5}, "max_tokens: must be a whole number of at least 1"),
        ({"temperature": 2.1}, "temperature: must be a number from 0 to 2"),
        ({"temperature": "hot"}, "temperature: must be a number from 0 to 2"),
        ({"top_p": -0.1}, "top_p: must be a number from 0 to 1"),
        ({"seed": "x"}, "seed: must be a whole number"),
        ({"stop": ["a", ""]}, "stop: must be a text, or a list of up to 16 texts that are not empty"),
        ({"stop": ["a"] * 17}, "stop: must be a text"),
        ({"messages": []}, "messages: must be a list of at least one message"),
        ({"messages": "Hello"}, "messages: must be a list of at least one message"),
        ({"messages": ["Hello"]}, r"messages[0]: must be an object with role and content"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role: must be one of system, developer"),
        ({"messages": [{"role": [], "content": "x"}]}, "messages[0].role: must be one of system, developer"),
        ({"messages": [*HELLO, {"role": "user"}]}, "messages[1].content: must be a text"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content: must be a text"),
        ({"messages": [{"role": "user", "content": "x", "name": "y"}]}, "messages[0].name: this model cannot"),
        ({"messages": [{"role": "user", "content": "x<|im_end|>"}]}, "messages[0].content: has <|im_end|>"),
    ],
)
def test_what_the_model_cannot_do_is_refused_with_its_name(request_: dict[str, object], text: str) -> None:
    assert refuse(json.dumps({"messages": HELLO} | request_).encode()).startswith(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"\xff{}", "request: is not JSON"),
        (b"{", "request: is not JSON"),
        (b"[]", "request: must be a JSON object"),
        (b"[" * 100_000, "request: is nested too deeply"),
        (b'{"messages": [{"role": "user", "content": "\\ud800"}]}', "messages[0].content: has half a character"),
        (b'{"messages": [{"role": "user", "content": "x"}], "temperature": NaN}', "temperature: must be a number"),
    ],
)
def test_a_text_that_is_no_request_is_refused(text: bytes, reason: str) -> None:
    assert refuse(text).startswith(reason)
