"""Translates completions to jobs. Pure, so that a worker process can do it."""

from collections.abc import Iterator
from typing import Any

import msgspec

from services.gateway.http.bodies import decode_body
from services.gateway.http.problems import FieldError
from services.gateway.jobs.parse import SubmitContext
from services.gateway.openai.calls.parameters import Stop, StreamOptions, list_stops
from services.gateway.openai.calls.record import Endpoint
from services.gateway.openai.calls.translation import Shown, Translated, build, check_abilities, read_model
from services.gateway.openai.completions.schemas import CompletionRequest
from services.gateway.openai.kinds.generation import Generation
from services.gateway.openai.problems import unsupported

DEFAULT_TOKENS = 16  # OpenAI's own
MAX_ECHO = 64 * 1024  # characters of a prompt that is echoed: each wait and stream holds it


class Repeated(msgspec.Struct, frozen=True):
    """What the answer to a repeated request needs of it."""

    model: str
    prompt: Any = ""
    stop: Stop | None = None
    max_tokens: int | None = None
    echo: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None


def reshow(body: bytes) -> Shown:
    """Return what the answer to a request needs that was accepted before."""
    return show(decode_body(body, Repeated))


def show(request: CompletionRequest | Repeated) -> Shown:
    usage = request.stream_options is not None and bool(request.stream_options.include_usage)
    prefix = read_prompt(request.prompt) if request.echo else ""
    return Shown(
        model=request.model,
        stream=bool(request.stream),
        include_usage=usage,
        stop=list_stops(request.stop),
        max_tokens=request.max_tokens or DEFAULT_TOKENS,
        prefix=prefix or "",
    )


def translate(body: bytes, context: SubmitContext, in_worker: bool) -> Translated:
    """Return the job of a body, and what its answer needs. Raises Problem (400, 403, 404, 409, 422)."""
    request: CompletionRequest = decode_body(body, CompletionRequest)
    speaker = read_model(context, request.model)
    if speaker.generates is None:
        raise unsupported(FieldError("/model", "it makes embeddings; use /openai/v1/embeddings, or another model"))
    if not speaker.generates.makes_prompts:
        raise unsupported(FieldError("/model", "it takes messages; use /openai/v1/chat/completions, or another model"))
    generation = to_generation(request)
    check_abilities(generation, speaker, list(find_errors(request)))
    inputs = speaker.generates.translate(generation, speaker.model)
    job = build(
        Endpoint.COMPLETIONS,
        body,
        context,
        speaker,
        inputs,
        tier=request.service_tier,
        metadata=request.metadata,
        reuse=request.reuse,
    )
    return Translated(job, show(request))


def read_prompt(prompt: Any) -> str | None:
    """Return the text of a prompt, or None if it is not a single text."""
    if isinstance(prompt, list) and len(prompt) == 1:
        (prompt,) = prompt
    return prompt if isinstance(prompt, str) else None


def find_errors(request: CompletionRequest) -> Iterator[FieldError]:
    prompt = read_prompt(request.prompt)
    if prompt is None:
        yield FieldError("/prompt", "must be one text: send several in several requests, and tokens as text")
    for name in ("n", "best_of"):
        if getattr(request, name) not in (None, 1):
            yield FieldError(f"/{name}", "one answer a request; send several requests")
    for name in ("logprobs", "suffix"):
        if getattr(request, name) is not None:
            yield FieldError(f"/{name}", "must be null: models cannot do this here; leave it out")
    if request.logit_bias:
        yield FieldError("/logit_bias", "must be null or empty: models cannot do this here; leave it out")
    if request.stream_options is not None and not request.stream:
        yield FieldError("/stream_options", "is only for streams; set `stream` to true, or leave it out")
    if request.echo and prompt is not None and len(prompt) > MAX_ECHO:
        yield FieldError("/echo", f"a prompt of more than {MAX_ECHO} characters is not echoed; leave it out")


def to_generation(request: CompletionRequest) -> Generation:
    return Generation(
        prompt=read_prompt(request.prompt),
        max_tokens=request.max_tokens or DEFAULT_TOKENS,
        temperature=request.temperature,
        top_p=request.top_p,
        stop=list_stops(request.stop),
        seed=request.seed,
        frequency_penalty=request.frequency_penalty,
        presence_penalty=request.presence_penalty,
        stream=bool(request.stream),
    )
