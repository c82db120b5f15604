"""Translates responses to jobs. Pure, so that a worker process can do it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from services.gateway.http.bodies import decode_body
from services.gateway.http.problems import FieldError, escape
from services.gateway.jobs.parse import SubmitContext
from services.gateway.openai.calls.failures import OF_RESPONSES
from services.gateway.openai.calls.record import Endpoint, write_record
from services.gateway.openai.calls.translation import Translated, build, read_model
from services.gateway.openai.chat.schemas import ChatMessage
from services.gateway.openai.chat.translation import make_prompt
from services.gateway.openai.kinds.generation import Generation
from services.gateway.openai.problems import unsupported
from services.gateway.openai.responses.echo import Echo, ShownResponse, show
from services.gateway.openai.responses.items import Turn, list_messages, read_turns
from services.gateway.openai.responses.schemas import InputMessage, ResponseRequest
from services.gateway.openai.speakers import TEMPLATE, Speaker

UNSTORED_SECONDS = 600.0  # that a job is kept after its end with `store: false`: the client must get its answer
# What no model does here, with what to do instead.
NEVER = {
    "access_programs": "there are none; leave it out",
    "background_options": "there are none; leave it out, and choose a priority with `service_tier`",
    "context_management": "nothing is left out of a conversation; leave it out",
    "conversation": "there are no conversations; use `previous_response_id`",
    "image": "models take text only; leave it out",
    "include": "an output is one text, with nothing to add; leave it out",
    "max_tool_calls": "there are no tools; leave it out",
    "moderation": "there is no moderation here; leave it out",
    "prompt": "there are no stored prompts; send the text in `instructions` and `input`",
    "tools": "models answer in text only; leave it out, or use /openai/v1/chat/completions",
    "top_logprobs": "there are no probabilities; leave it out",
}
EXPECTED = {
    "tool_choice": ("none", "auto"),
    "truncation": ("disabled",),
}


class NeedsHistory(Exception):
    """A request continues a response, which must be read first."""

    def __init__(self, previous: str) -> None:
        """`previous` is the id of that response, as the client has sent it."""
        super().__init__(previous)
        self.previous = previous


def reshow(body: bytes) -> ShownResponse:
    """Return what the answer to a request needs that was accepted before."""
    return show(decode_body(body, Echo))


def translate(body: bytes, context: SubmitContext, in_worker: bool, turns: Sequence[Turn] | None = None) -> Translated:
    """Return the job of a body, and what its answer needs. `turns` are the responses before, oldest first.

    Raises Problem (400, 403, 404, 409, 422, 500), NeedsHistory and NeedsWorker.
    """
    request: ResponseRequest = decode_body(body, ResponseRequest)
    speaker = read_model(context, request.model)
    generation = to_generation(request, speaker)
    assert speaker.generates is not None, "to_generation has checked the kind"
    errors = [*find_errors(request), *rename(speaker.generates.refuse(generation, speaker.model))]
    if errors:
        raise unsupported(*errors)
    if request.previous_response_id is not None and turns is None:
        raise NeedsHistory(request.previous_response_id)
    messages = [to_chat(message) for message in join_messages(request, turns or ())]
    if speaker.generates.makes_prompts:
        generation = msgspec.structs.replace(generation, prompt=make_prompt(messages, speaker, in_worker))
    else:
        generation = msgspec.structs.replace(generation, messages=[msgspec.to_builtins(each) for each in messages])
    inputs = speaker.generates.translate(generation, speaker.model)
    job = build(
        Endpoint.RESPONSES,
        body,
        context,
        speaker,
        inputs,
        tier=request.service_tier,
        metadata=request.metadata,
        reuse=request.reuse,
    )
    if request.store is False:
        record = write_record(Endpoint.RESPONSES, body, store=False)
        job = msgspec.structs.replace(job, retain=UNSTORED_SECONDS, request=record)
    return Translated(job, show(msgspec.convert(request, Echo, from_attributes=True)))


def join_messages(request: ResponseRequest, turns: Sequence[Turn]) -> Iterator[InputMessage]:
    """Yield the whole conversation. Raises Problem (400) for a response of a later release."""
    if request.instructions is not None:
        yield InputMessage("system", request.instructions)
    try:
        yield from read_turns(turns)
    except msgspec.ValidationError as error:
        detail = "a later release has made a response before it; send the messages as `input`"
        raise unsupported(FieldError("/previous_response_id", detail)) from error
    yield from list_messages(request.input)


def to_chat(message: InputMessage) -> ChatMessage:
    return ChatMessage(message.role, message.text)


def to_generation(request: ResponseRequest, speaker: Speaker) -> Generation:
    """Return what the model is asked to write, without the conversation. Raises Problem (400) for another model."""
    if speaker.generates is None:
        raise unsupported(FieldError("/model", "it makes embeddings; use /openai/v1/embeddings, or another model"))
    if speaker.generates.makes_prompts and speaker.template is None:
        text = f"it has no chat template (`{TEMPLATE}`); use /openai/v1/completions, or another model"
        raise unsupported(FieldError("/model", text))
    most = request.max_output_tokens
    if most is None and speaker.generates.makes_prompts:
        most = speaker.max_tokens
    return Generation(
        max_tokens=most,
        temperature=request.temperature,
        top_p=request.top_p,
        stream=bool(request.stream),
        others=dict(find_others(request)),
    )


def find_others(request: ResponseRequest) -> Iterator[tuple[str, Any]]:
    """Yield the further parameters that have an effect, by the names and in the form of chat completions."""
    effort = (request.reasoning or {}).get("effort")
    if effort is not None:
        yield "reasoning_effort", effort
    text = request.text or {}
    if text.get("verbosity") is not None:
        yield "verbosity", text["verbosity"]
    if (form := text.get("format")) not in (None, {"type": "text"}):
        yield "response_format", to_response_format(form)


def to_response_format(form: Any) -> Any:
    """Return a `text.format` as chat completions have it: what belongs to a schema is an object of its own."""
    if not isinstance(form, Mapping) or form.get("type") != "json_schema":
        return form
    return {"type": "json_schema", "json_schema": {name: form[name] for name in form if name != "type"}}


def rename(errors: Sequence[FieldError]) -> Iterator[FieldError]:
    for each in errors:
        yield FieldError(OF_RESPONSES.get(each.pointer.removeprefix("/"), each.pointer), each.detail)


def find_errors(request: ResponseRequest) -> Iterator[FieldError]:
    """Yield an error for each parameter that no model takes, or that contradicts another."""
    for name, advice in NEVER.items():
        if getattr(request, name) not in (None, [], 0):
            yield FieldError(f"/{name}", advice)
    for name, known in EXPECTED.items():
        if getattr(request, name) not in (None, *known):
            yield FieldError(f"/{name}", f"must be {' or '.join(known)}; leave it out")
    if request.stream_options is not None and not request.stream:
        yield FieldError("/stream_options", "is only for streams; set `stream` to true, or leave it out")
    if request.background and request.store is False:
        yield FieldError("/store", "a response in the background is stored, so that you can get it; leave it out")
    if (request.prompt_cache_options or {}).get("prewarm"):
        yield FieldError("/prompt_cache_options/prewarm", "there is no cache to prepare; leave it out")
    yield from find_object_errors("reasoning", request.reasoning, ("effort",))
    yield from find_object_errors("text", request.text, ("format", "verbosity"))


def find_object_errors(name: str, value: Mapping[str, Any] | None, known: Sequence[str]) -> Iterator[FieldError]:
    for each in value or {}:
        if each not in known and (value or {})[each] is not None:
            yield FieldError(f"/{name}/{escape(each)}", "models cannot do this here; leave it out")
