"""Translates chat completions to jobs. Pure, so that a worker process can do it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from services.gateway.http.bodies import decode_body
from services.gateway.http.problems import FieldError
from services.gateway.jobs.parse import SubmitContext
from services.gateway.openai.calls.parameters import Stop, StreamOptions, list_stops
from services.gateway.openai.calls.record import Endpoint
from services.gateway.openai.calls.translation import NeedsWorker, Shown, Translated, build, check_abilities, read_model
from services.gateway.openai.chat.schemas import ChatMessage, ChatRequest
from services.gateway.openai.kinds.generation import OTHERS, Generation
from services.gateway.openai.kinds.messages import IMAGES, list_taken
from services.gateway.openai.problems import unsupported
from services.gateway.openai.speakers import TEMPLATE, Speaker
from services.gateway.openai.templates.limits import limited
from services.gateway.openai.templates.named import ROLES
from services.gateway.openai.templates.rendering import render

# Parameters that no model takes, with what to do.
NEVER = {
    "audio": "models answer in text only; leave it out",
    "moderation": "there is no moderation here; leave it out",
    "functions": "it is deprecated; use `tools`",
    "function_call": "it is deprecated; use `tool_choice`",
}
# What asks for nothing that every model does not do anyway: OpenAI's defaults, and lists of nothing.
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "response_format": ({"type": "text"},),
    "tools": ([],),
    "logit_bias": ({},),
    "tool_choice": ("none", "auto"),
    "parallel_tool_calls": (True, False),
    "logprobs": (False,),
    "top_logprobs": (0,),
}
TOOL_FIELDS = ("tool_choice", "parallel_tool_calls")  # without effect without tools, by OpenAI's definition


class Repeated(msgspec.Struct, frozen=True):
    """What the answer to a repeated request needs of it."""

    model: str
    stop: Stop | None = None
    max_completion_tokens: int | None = None
    max_tokens: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None


def reshow(body: bytes) -> Shown:
    """Return what the answer to a request needs that was accepted before."""
    return show(decode_body(body, Repeated))


def show(request: ChatRequest | Repeated) -> Shown:
    usage = request.stream_options is not None and bool(request.stream_options.include_usage)
    return Shown(
        model=request.model,
        stream=bool(request.stream),
        include_usage=usage,
        stop=list_stops(request.stop),
        max_tokens=request.max_completion_tokens or request.max_tokens,
    )


def translate(body: bytes, context: SubmitContext, in_worker: bool) -> Translated:
    """Return the job of a body, and what its answer needs.

    Raises Problem (400, 403, 404, 409, 422, 500), and NeedsWorker.
    """
    request: ChatRequest = decode_body(body, ChatRequest)
    speaker = read_model(context, request.model)
    if speaker.generates is None:
        raise unsupported(FieldError("/model", "it makes embeddings; use /openai/v1/embeddings, or another model"))
    errors = [*find_errors(request), *find_message_errors(request.messages, speaker)]
    generation = to_generation(request, speaker)
    check_abilities(generation, speaker, errors)
    if speaker.generates.makes_prompts:
        prompt = make_prompt(request.messages, speaker, in_worker)
        generation = msgspec.structs.replace(generation, prompt=prompt, messages=None)
    inputs = speaker.generates.translate(generation, speaker.model)
    job = build(
        Endpoint.CHAT,
        body,
        context,
        speaker,
        inputs,
        tier=request.service_tier,
        metadata=request.metadata,
        reuse=request.reuse,
    )
    return Translated(job, show(request))


def find_errors(request: ChatRequest) -> Iterator[FieldError]:
    """Yield an error for each parameter that no model takes, or that contradicts another."""
    for name, advice in NEVER.items():
        if getattr(request, name) is not None:
            yield FieldError(f"/{name}", advice)
    if request.n not in (None, 1):
        yield FieldError("/n", "one answer a request; send several requests")
    if request.modalities not in (None, ["text"]):
        yield FieldError("/modalities", 'models answer in text only; leave it out, or send ["text"]')
    if request.stream_options is not None and not request.stream:
        yield FieldError("/stream_options", "is only for streams; set `stream` to true, or leave it out")
    if None not in (given := (request.max_tokens, request.max_completion_tokens)) and given[0] != given[1]:
        yield FieldError("/max_tokens", "differs from `max_completion_tokens`; send only that")


def to_generation(request: ChatRequest, speaker: Speaker) -> Generation:
    assert speaker.generates is not None, "the caller has checked the kind"
    most = request.max_completion_tokens or request.max_tokens
    if most is None and speaker.generates.makes_prompts:
        most = speaker.max_tokens
    return Generation(
        messages=[msgspec.to_builtins(message) for message in request.messages],
        max_tokens=most,
        temperature=request.temperature,
        top_p=request.top_p,
        stop=list_stops(request.stop),
        seed=request.seed,
        frequency_penalty=request.frequency_penalty,
        presence_penalty=request.presence_penalty,
        stream=bool(request.stream),
        others=dict(find_others(request)),
    )


def find_others(request: ChatRequest) -> Iterator[tuple[str, Any]]:
    """Yield the further parameters that have an effect."""
    for name in OTHERS:
        value = getattr(request, name)
        is_neutral = value is None or value in NEUTRAL.get(name, ())
        if not is_neutral or (name in TOOL_FIELDS and value is not None and request.tools):
            yield name, value


def find_message_errors(messages: Sequence[ChatMessage], speaker: Speaker) -> Iterator[FieldError]:
    """Yield an error for each part of a message that the model cannot read."""
    assert speaker.generates is not None, "the caller has checked the kind"
    if speaker.generates.makes_prompts and speaker.template is None:
        text = f"the model has no chat template (`{TEMPLATE}`), so it takes only /openai/v1/completions"
        yield FieldError("/messages", text)
    taken = frozenset() if speaker.generates.makes_prompts else list_taken(speaker.model)
    for number, message in enumerate(messages):
        yield from check_message(message, f"/messages/{number}", taken)
        if speaker.generates.makes_prompts and not speaker.is_custom and message.name is not None:
            yield FieldError(f"/messages/{number}/name", "the model's chat template has no names; leave it out")


def check_message(message: ChatMessage, pointer: str, taken: frozenset[str]) -> Iterator[FieldError]:
    for name in ("refusal", "audio", "function_call"):
        if getattr(message, name) is not None:
            yield FieldError(f"{pointer}/{name}", "must be null; leave it out")
    if "tools" not in taken:
        if message.role in ("tool", "function"):
            yield FieldError(f"{pointer}/role", f"this model has no tools; expected one of {', '.join(ROLES)}")
        for name in ("tool_calls", "tool_call_id"):
            if getattr(message, name):
                yield FieldError(f"{pointer}/{name}", "this model has no tools; leave it out")
    if message.content is None and not message.tool_calls:
        yield FieldError(f"{pointer}/content", "is missing; send a text")
    if not isinstance(message.content, list):
        return
    for number, part in enumerate(message.content):
        if part.get("type") == "text" and isinstance(part.get("text"), str):
            continue
        if IMAGES not in taken or part.get("type") != "image_url":
            text = 'this model takes only parts such as {"type": "text", "text": "…"}'
            yield FieldError(f"{pointer}/content/{number}", text)


def make_prompt(messages: Sequence[ChatMessage], speaker: Speaker, in_worker: bool) -> str:
    """Return the prompt of messages. Raises Problem (400, 500), and NeedsWorker."""
    assert speaker.template is not None, "the caller has checked it"
    texts = [to_template(message) for message in messages]
    if not speaker.is_custom:
        return render(speaker.template, texts, {})
    if not in_worker:
        raise NeedsWorker(speaker.model.name)
    with limited():
        return render(speaker.template, texts, speaker.variables)


def to_template(message: ChatMessage) -> Mapping[str, Any]:
    """Return a message as templates of Hugging Face have it."""
    content = message.content or ""
    if not isinstance(content, str):
        content = "\n".join(part["text"] for part in content)
    role = "system" if message.role == "developer" else message.role
    return {"role": role, "content": content, **({} if message.name is None else {"name": message.name})}
