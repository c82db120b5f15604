"""Translates embeddings to jobs, and writes their answers. Pure, so that a worker process can do it."""

import sys
from array import array
from base64 import b64encode
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from services.gateway.http.bodies import decode_body
from services.gateway.http.problems import FieldError
from services.gateway.jobs.parse import SubmitContext
from services.gateway.openai.calls.record import Endpoint
from services.gateway.openai.calls.translation import Shown, Translated, build, read_model
from services.gateway.openai.embeddings.schemas import Embedding, EmbeddingList, EmbeddingRequest, EmbeddingUsage
from services.gateway.openai.kinds import embeddings
from services.gateway.openai.kinds.embeddings import EMBEDDING, TOKENS
from services.gateway.openai.kinds.pieces import Outputs, UnreadableOutput, read_sum
from services.gateway.openai.problems import unreadable, unsupported
from services.gateway.openai.speakers import Speaker


class Repeated(msgspec.Struct, frozen=True):
    """What the answer to a repeated request needs of it."""

    model: str
    input: Any = None
    encoding_format: str | None = None


def reshow(body: bytes) -> Shown:
    """Return what the answer to a request needs that was accepted before."""
    return show(decode_body(body, Repeated))


def show(request: EmbeddingRequest | Repeated) -> Shown:
    texts = len(request.input) if isinstance(request.input, list) else 1
    return Shown(model=request.model, is_base64=request.encoding_format == "base64", texts=texts)


def translate(body: bytes, context: SubmitContext, in_worker: bool) -> Translated:
    """Return the job of a body, and what its answer needs. Raises Problem (400, 403, 404, 409, 422)."""
    request: EmbeddingRequest = decode_body(body, EmbeddingRequest)
    speaker = read_model(context, request.model)
    if speaker.generates is not None:
        raise unsupported(FieldError("/model", "it writes text; use a model that makes embeddings"))
    texts = [request.input] if isinstance(request.input, str) else request.input
    if errors := list(find_errors(request, texts, speaker)):
        raise unsupported(*errors)
    inputs = embeddings.translate([str(text) for text in texts], speaker.model)
    job = build(
        Endpoint.EMBEDDINGS,
        body,
        context,
        speaker,
        inputs,
        tier=request.service_tier,
        metadata=request.metadata,
        reuse=request.reuse,
    )
    return Translated(job, show(request))


def find_errors(request: EmbeddingRequest, texts: Sequence[Any], speaker: Speaker) -> Iterator[FieldError]:
    if not all(isinstance(text, str) for text in texts):
        yield FieldError("/input", "must be a text or a list of texts; send tokens as text")
    if (most := speaker.model.max_batch_size) and len(texts) > most:
        yield FieldError("/input", f"has {len(texts)} texts; the model takes {most} at a time; send several requests")
    size = embeddings.find_size(speaker.model)
    if request.dimensions is not None and request.dimensions != size:
        known = f"has {size}" if size > 0 else "does not say how many it has"
        yield FieldError("/dimensions", f"cannot be chosen: the model {known}; leave it out")


def write_list(model: str, outputs: Outputs, shown: Shown) -> bytes:
    """Return the answer of a job that has succeeded, as JSON. Raises Problem (500) for outputs of another form."""
    numbers: Sequence[Any] = outputs.get(EMBEDDING, ())
    length, rest = divmod(len(numbers), shown.texts)
    if rest or not length:
        text = f"the model returned {len(numbers)} numbers in '{EMBEDDING}' for {shown.texts} texts"
        raise unreadable(ValueError(text))
    vectors = (numbers[start : start + length] for start in range(0, len(numbers), length))
    try:
        tokens = read_sum(outputs, TOKENS)
    except UnreadableOutput as error:
        raise unreadable(error) from error
    answer = EmbeddingList(
        object="list",
        data=[
            Embedding(
                object="embedding", index=number, embedding=to_base64(vector) if shown.is_base64 else list(vector)
            )
            for number, vector in enumerate(vectors)
        ],
        model=model,
        usage=None if tokens is None else EmbeddingUsage(prompt_tokens=tokens, total_tokens=tokens),
    )
    return msgspec.json.encode(answer)


def to_base64(vector: Sequence[Any]) -> str:
    """Return FP32 as OpenAI's clients read it: little-endian."""
    raw = array("f", vector)
    if sys.byteorder == "big":
        raw.byteswap()
    return b64encode(raw).decode()
