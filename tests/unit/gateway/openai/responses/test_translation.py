"""Responses become jobs: what a model gets of them, and what is refused."""

from typing import Any

import msgspec
import pytest

from common.job_states import Priority
from services.gateway.http.problems import Problem
from services.gateway.openai.calls.record import Endpoint, read_record
from services.gateway.openai.calls.translation import Translated
from services.gateway.openai.problems import shape_error
from services.gateway.openai.responses.echo import Echo, ShownResponse
from services.gateway.openai.responses.items import Turn
from services.gateway.openai.responses.schemas import ResponseRequest
from services.gateway.openai.responses.translation import (
    EXPECTED,
    NEVER,
    UNSTORED_SECONDS,
    NeedsHistory,
    reshow,
    translate,
)
from services.gateway.openapi.descriptions import describe_fields
from tests.unit.gateway.openai.speaking import make_context, read_inputs, run

HELLO = {"role": "user", "content": "hello"}
RESPONSE = "resp_01m8hscxvvfz4vjz9xty5ajyby"
PART = {"type": "input_text", "text": "hello"}
ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "hi", "annotations": [], "logprobs": []}],
}
# Parameters with an effect, each with a value that is honoured.
HONOURED: dict[str, Any] = {
    "model": "llm",
    "input": "hello",
    "instructions": "be brief",
    "previous_response_id": RESPONSE,
    "background": True,
    "stream": True,
    "store": True,
    "max_output_tokens": 5,
    "temperature": 0.5,
    "top_p": 0.9,
    "metadata": {"a": "b"},
    "service_tier": "flex",
    "reuse": {"max_age": 60},
    "text": {"format": {"type": "text"}},
    "reasoning": {"effort": None},
}


def ask(model: str = "llm", **more: Any) -> dict[str, Any]:
    return {"model": model, "input": "hello", **more}


def refuse(**more: Any) -> tuple[int, str, str | None]:
    """Return the status, the code and the parameter of the error that a request gets."""
    with pytest.raises(Problem) as raised:
        run(translate, ask(**more))
    status, body = shape_error(raised.value)
    return status, body.error.code, body.error.param


def read_request(translated: Translated) -> Any:
    """Return the request that a model gets which templates by itself."""
    return msgspec.json.decode(read_inputs(translated)["request"])


def test_a_model_gets_the_instructions_and_the_input() -> None:
    request = ask("talk", instructions="be brief", max_output_tokens=5, temperature=0, top_p=1)
    system = {"role": "system", "content": "be brief"}
    assert read_request(run(translate, request)) == {
        "messages": [system, HELLO],
        "max_tokens": 5,
        "temperature": 0,
        "top_p": 1,
        "stream": False,
    }


def test_a_prompt_is_rendered_from_messages_and_their_parts() -> None:
    messages = [{"role": "developer", "content": "be brief"}, {"role": "user", "content": [PART, PART]}, ANSWER]
    inputs = read_inputs(run(translate, ask(input=messages)))
    assert inputs["text_input"] == (
        "<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\nhello\nhello<|im_end|>\n"
        "<|im_start|>assistant\nhi<|im_end|>\n<|im_start|>assistant\n"
    )
    assert msgspec.json.decode(inputs["sampling_parameters"]) == {"max_tokens": 4096}


def test_the_responses_before_come_between_the_instructions_and_the_input() -> None:
    first = msgspec.json.encode(ask("talk", instructions="not carried over", input=[HELLO, HELLO]))
    second = msgspec.json.encode(ask("talk", input="and?", previous_response_id=RESPONSE))
    body = msgspec.json.encode(ask("talk", input="why?", instructions="be brief", previous_response_id=RESPONSE))
    with pytest.raises(NeedsHistory) as raised:
        translate(body, make_context(), False)
    assert raised.value.previous == RESPONSE
    translated = translate(body, make_context(), False, [Turn(first, "one"), Turn(second, "two")])
    said = [(message["role"], message["content"]) for message in read_request(translated)["messages"]]
    assert said == [
        ("system", "be brief"),
        ("user", "hello"),
        ("user", "hello"),
        ("assistant", "one"),
        ("user", "and?"),
        ("assistant", "two"),
        ("user", "why?"),
    ]


def test_a_response_of_a_later_release_cannot_be_continued() -> None:
    later = msgspec.json.encode(ask(input=[{"role": "user", "content": [{"type": "input_smell"}]}]))
    with pytest.raises(Problem) as raised:
        translate(msgspec.json.encode(ask(previous_response_id=RESPONSE)), make_context(), False, [Turn(later, "")])
    status, body = shape_error(raised.value)
    assert (status, body.error.param) == (400, "previous_response_id")


def test_the_job_remembers_the_request_and_its_options() -> None:
    request = ask(background=True, service_tier="priority", metadata={"a": "b"}, stream=True)
    job, shown = run(translate, request)
    assert (job.priority, job.metadata, job.retain) == (Priority.HIGH, b'{"a":"b"}', None)
    assert job.request is not None
    record = read_record(job.request)
    assert (record.endpoint, msgspec.json.decode(record.body)) == (Endpoint.RESPONSES, request)
    assert shown == reshow(msgspec.json.encode(request))
    assert isinstance(shown, ShownResponse)
    assert shown.echo == Echo(model="llm", background=True, stream=True)
    assert shown.stream


def test_a_response_that_is_not_stored_is_kept_for_its_answer_only() -> None:
    job = run(translate, ask(store=False)).job
    assert job.retain == UNSTORED_SECONDS
    assert (job.request or b"").startswith(b'{"endpoint":"/v1/responses","store":false,"body":{')


@pytest.mark.parametrize("name", [field.name for field in msgspec.structs.fields(ResponseRequest)])
def test_no_parameter_is_ignored_in_silence(name: str) -> None:
    """Each is honoured, refused, or documented as without effect."""
    without_effect = describe_fields(ResponseRequest)[name].startswith("Without effect")
    assert name in HONOURED or name in ("stream_options", *NEVER, *EXPECTED) or without_effect


def test_what_is_honoured_is_accepted() -> None:
    translate(msgspec.json.encode(HONOURED), make_context(), False, [])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("access_programs", {"cyber": "standard"}),
        ("background_options", {"completion_window": "2h"}),
        ("context_management", [{"type": "compaction"}]),
        ("conversation", "conv_1"),
        ("image", {}),
        ("include", ["message.output_text.logprobs"]),
        ("max_tool_calls", 1),
        ("moderation", {"model": "x"}),
        ("prompt", {"id": "x"}),
        ("tools", [{"type": "web_search"}]),
        ("top_logprobs", 1),
        ("tool_choice", "required"),
        ("tool_choice", {"type": "function", "name": "x"}),
        ("truncation", "auto"),
        ("stream_options", {}),
    ],
)
def test_what_no_model_does_is_refused(name: str, value: Any) -> None:
    assert refuse(**{name: value}) == (400, "unsupported_parameter", name)


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"reasoning": {"effort": "low"}}, "reasoning.effort"),
        ({"reasoning": {"summary": "auto"}}, "reasoning.summary"),
        ({"text": {"format": {"type": "json_object"}}}, "text.format"),
        ({"text": {"verbosity": "low"}}, "text.verbosity"),
        ({"text": {"size": 1}}, "text.size"),
        ({"prompt_cache_options": {"prewarm": True}}, "prompt_cache_options.prewarm"),
        ({"background": True, "store": False}, "store"),
        ({"model": "embed"}, "model"),
    ],
)
def test_what_this_model_does_not_do_is_refused(more: dict[str, Any], param: str) -> None:
    assert refuse(**more) == (400, "unsupported_parameter", param)


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ([], "input"),
        ([{"type": "item_reference", "id": "msg_1"}], "input[0].type"),
        ([{"type": "function_call_output", "call_id": "1", "output": "x"}], "input[0].type"),
        ([{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}], "input[0].content[0].type"),
        ([{"role": "user", "content": [{"type": "input_file", "file_id": "x"}]}], "input[0].content[0].type"),
        ([{"role": "tool", "content": "x"}], "input[0].role"),
        ([HELLO, {"role": "user"}], "input[1].content"),
        (1, "input"),
    ],
)
def test_input_that_is_no_text_is_refused(value: Any, param: str) -> None:
    assert refuse(input=value) == (400, "invalid_value", param)


@pytest.mark.parametrize("name", ["stop", "seed", "messages", "max_tokens"])
def test_parameters_of_other_calls_are_unknown(name: str) -> None:
    assert refuse(**{name: 1}) == (400, "unknown_parameter", name)


def test_what_changes_nothing_is_accepted() -> None:
    neutral: dict[str, Any] = {
        "tools": [],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "truncation": "disabled",
        "include": [],
        "top_logprobs": 0,
        "context_management": [],
        "text": {"format": {"type": "text"}, "verbosity": None},
        "reasoning": {"effort": None, "summary": None},
        "prompt_cache_options": {"mode": "implicit"},
        "user": "me",
        "store": True,
    }
    assert run(translate, ask(**neutral)).job.tensors == run(translate, ask()).job.tensors


def test_a_model_gets_the_further_parameters_that_it_takes() -> None:
    schema = {"type": "json_schema", "name": "x", "schema": {"type": "object"}, "strict": True}
    asked = read_request(run(translate, ask("tools", text={"format": schema})))
    assert asked["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "x", "schema": {"type": "object"}, "strict": True},
    }
