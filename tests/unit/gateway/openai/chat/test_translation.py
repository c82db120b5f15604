"""Chat completions become jobs of each kind of model."""

from typing import Any

import msgspec
import pytest

from common import ids
from common.job_states import Priority
from common.security.ssrf import AddressPolicy
from services.gateway.http.problems import Problem
from services.gateway.jobs.parse import SubmitContext
from services.gateway.openai.calls.translation import NeedsWorker
from services.gateway.openai.chat.schemas import ChatRequest
from services.gateway.openai.chat.translation import NEVER, reshow, translate
from services.gateway.openai.kinds.generation import OTHERS
from services.gateway.openai.problems import shape_error
from tests.unit.gateway.openai.speaking import VLLM, make_context, read_inputs, run
from tests.unit.gateway.parsing import TRACEPARENT

HELLO = [{"role": "user", "content": "hello"}]
PROMPT = "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
SAMPLING = {"temperature": 0.5, "top_p": 0.9, "seed": 7, "frequency_penalty": 1, "presence_penalty": -1}
TOOL = {"type": "function", "function": {"name": "find", "parameters": {}}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}


def ask(model: str, **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": HELLO, **more}


def refuse(request: dict[str, Any]) -> tuple[int, str, str | None]:
    """Return the status, the code and the parameter of the error that a request gets."""
    with pytest.raises(Problem) as raised:
        run(translate, request)
    status, body = shape_error(raised.value)
    return status, body.error.code, body.error.param


def test_vllm_gets_a_prompt_and_its_sampling_parameters() -> None:
    inputs = read_inputs(run(translate, ask("llm", **SAMPLING, max_completion_tokens=9, stop="x", stream=True)))
    sampling = msgspec.json.decode(inputs.pop("sampling_parameters"))
    assert sampling == {**SAMPLING, "stop": ["x"], "max_tokens": 9}
    flags = ("stream", "exclude_input_in_output", "return_finish_reason", "return_num_input_tokens")
    assert inputs == {"text_input": PROMPT, **dict.fromkeys(flags, b"\x01")}


def test_tensorrt_gets_inputs_by_its_own_names_in_a_batch_of_one() -> None:
    inputs = read_inputs(run(translate, ask("trt", temperature=0.5, seed=7, stop=["x"])))
    assert inputs["text_input"].endswith("<|start_header_id|>assistant<|end_header_id|>\n\n")
    assert inputs["max_tokens"] == (77).to_bytes(4, "little")
    assert inputs["random_seed"] == (7).to_bytes(8, "little")
    assert (inputs["stop_words"], inputs["stream"]) == ("x", b"\x00")


def test_a_model_that_templates_by_itself_gets_the_request() -> None:
    request = ask("talk", max_tokens=5, temperature=0, user="me", store=True, service_tier="flex")
    asked = msgspec.json.decode(read_inputs(run(translate, request))["request"])
    assert asked == {"messages": HELLO, "max_tokens": 5, "temperature": 0, "stream": False}


def test_a_model_gets_the_further_parameters_that_it_takes() -> None:
    parts = [{"type": "text", "text": "look"}, IMAGE]
    request = {
        "model": "tools",
        "messages": [
            {"role": "user", "content": parts},
            {"role": "assistant", "tool_calls": [{"id": "a"}]},
            {"role": "tool", "tool_call_id": "a", "content": "1"},
        ],
        "tools": [TOOL],
        "tool_choice": "auto",
        "response_format": {"type": "json_object"},
    }
    asked = msgspec.json.decode(read_inputs(run(translate, request))["request"])
    assert asked == {name: value for name, value in request.items() if name != "model"} | {"stream": False}


def test_the_job_remembers_the_request_with_its_priority_and_metadata() -> None:
    more = b'"service_tier": "flex", "metadata":{"a":"b"}'
    body = b'{"model": "llm", "messages": [{"role":"user","content":"hello"}], ' + more + b"}"
    job, shown = translate(body, make_context(), False)
    assert job.request == b'{"endpoint":"/v1/chat/completions","body":' + body + b"}"
    assert (job.priority, job.metadata) == (Priority.LOW, b'{"a":"b"}')
    assert job.input_bytes == len(job.tensors) + len(job.metadata or b"") + len(job.request or b"")
    assert reshow(body) == shown


def test_a_gateway_of_this_release_answers_what_a_later_one_has_accepted() -> None:
    shown = reshow(
        b'{"model": "m", "messages": 1, "later": 2, "stream": true, "stream_options": {"include_usage": true}}'
    )
    assert (shown.stream, shown.include_usage) == (True, True)


@pytest.mark.parametrize("model", ["llm", "trt", "talk"])
@pytest.mark.parametrize("name", OTHERS)
def test_a_further_parameter_is_refused_by_name(model: str, name: str) -> None:
    values: dict[str, Any] = {
        "response_format": {"type": "json_object"},
        "tools": [TOOL],
        "tool_choice": "required",
        "parallel_tool_calls": True,
        "logit_bias": {"1": 2},
        "logprobs": True,
        "top_logprobs": 2,
        "reasoning_effort": "low",
        "verbosity": "low",
        "prediction": {"type": "content", "content": "x"},
        "web_search_options": {"search_context_size": "low"},
    }
    needs_tools = name == "parallel_tool_calls"
    found = refuse(ask(model, **{name: values[name]}, **({"tools": [TOOL]} if needs_tools else {})))
    assert found == (400, "unsupported_parameter", "tools" if needs_tools else name)


@pytest.mark.parametrize("name", ["response_format", "tool_choice", "prediction", "web_search_options"])
def test_an_empty_object_is_not_ignored(name: str) -> None:
    assert refuse(ask("llm", **{name: {}})) == (400, "unsupported_parameter", name)


def test_the_error_of_a_further_parameter_says_what_is_allowed() -> None:
    with pytest.raises(Problem) as raised:
        run(translate, ask("llm", response_format={"type": "json_object"}))
    assert raised.value.detail.startswith('response_format: this model takes only {"type": "text"} here; leave')


@pytest.mark.parametrize(
    "neutral",
    [
        {"response_format": {"type": "text"}},
        {"tools": []},
        {"tool_choice": "auto"},
        {"parallel_tool_calls": False},
        {"logit_bias": {}},
        {"logprobs": False, "top_logprobs": 0},
        {"n": 1},
        {"modalities": ["text"]},
        {"max_tokens": 5, "max_completion_tokens": 5},
        dict.fromkeys(each for each in ChatRequest.__struct_fields__ if each not in ("model", "messages")),
    ],
)
def test_a_parameter_without_effect_is_accepted(neutral: dict[str, Any]) -> None:
    assert run(translate, ask("llm", **neutral)).job.model == "llm"


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"n": 2}, "n"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"max_tokens": 5, "max_completion_tokens": 6}, "max_tokens"),
        *(
            ({name: value}, name)
            for name, value in zip(NEVER, ({"voice": "x"}, {"model": "x"}, [], "auto"), strict=True)
        ),
    ],
)
def test_what_no_model_can_do_is_refused_by_name(more: dict[str, Any], param: str) -> None:
    assert refuse(ask("llm", **more)) == (400, "unsupported_parameter", param)


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"role": "user", "content": [IMAGE]}, "messages[0].content[0]"),
        ({"role": "user", "content": [{"type": "text"}]}, "messages[0].content[0]"),
        ({"role": "user"}, "messages[0].content"),
        ({"role": "user", "content": "x", "name": "me"}, "messages[0].name"),
        ({"role": "tool", "content": "x", "tool_call_id": "a"}, "messages[0].role"),
        ({"role": "assistant", "content": "x", "tool_calls": [{}]}, "messages[0].tool_calls"),
        ({"role": "assistant", "content": "x", "refusal": "no"}, "messages[0].refusal"),
    ],
)
def test_a_message_that_the_model_cannot_read_is_refused(message: dict[str, Any], param: str) -> None:
    assert refuse({"model": "llm", "messages": [message]}) == (400, "unsupported_parameter", param)


@pytest.mark.parametrize(
    ("request_body", "code", "param"),
    [
        (ask("llm", temperature=3), "invalid_value", "temperature"),
        (ask("llm", temprature=1), "unknown_parameter", "temprature"),
        (ask("llm", service_tier="scale"), "invalid_value", "service_tier"),
        ({"model": "llm", "messages": []}, "invalid_value", "messages"),
        ({"model": "llm"}, "invalid_value", "messages"),
        (ask("llm", metadata={"a": 1}), "invalid_value", "metadata.a"),
    ],
)
def test_a_wrong_field_is_400_with_its_name(request_body: dict[str, Any], code: str, param: str | None) -> None:
    assert refuse(request_body) == (400, code, param)


@pytest.mark.parametrize(
    ("model", "more", "param"),
    [
        ("trt", {"top_p": 0.5}, "top_p"),
        ("trt", {"seed": -1}, "seed"),
        ("trt", {"presence_penalty": 1}, "presence_penalty"),
    ],
)
def test_a_parameter_without_an_input_of_the_model_is_refused(model: str, more: dict[str, Any], param: str) -> None:
    assert refuse(ask(model, **more)) == (400, "unsupported_parameter", param)


def test_a_model_without_a_template_takes_no_messages() -> None:
    bare = msgspec.structs.replace(VLLM, settings={"backend": "vllm"})
    with pytest.raises(Problem, match="takes only /openai/v1/completions"):
        run(translate, ask("llm"), bare)
    assert refuse(ask("embed")) == (400, "unsupported_parameter", "model")
    assert refuse(ask("echo")) == (404, "model_not_found", None)


def test_a_template_of_an_operator_is_rendered_only_in_a_worker() -> None:
    own = msgspec.structs.replace(
        VLLM, settings={"backend": "vllm", "charonia.chat_template": "{{ messages[0].role }}{{ eos_token }}!"}
    )
    request = {"model": "llm", "messages": [{"role": "developer", "content": "x", "name": "me"}]}
    with pytest.raises(NeedsWorker):
        run(translate, request, own)
    assert read_inputs(run(translate, request, own, in_worker=True))["text_input"] == "system!"


def test_a_key_for_other_models_may_not_ask() -> None:
    context = SubmitContext(ids.new(), TRACEPARENT, {"llm": [VLLM]}, AddressPolicy(), allowed=["other*"])
    with pytest.raises(Problem) as raised:
        translate(msgspec.json.encode(ask("llm")), context, False)
    assert raised.value.status == 403
