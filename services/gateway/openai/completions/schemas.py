"""Bodies of completions: every parameter of OpenAI's schema, as for chat completions."""

from typing import Annotated

import msgspec
from msgspec import Meta

from common.job_options import Name, Reuse
from services.gateway.openai.calls.parameters import Penalty, Seed, Stop, StreamOptions, Temperature, Tokens, TopP
from services.gateway.openai.calls.translation import Metadata, Tier
from services.gateway.openai.kinds.pieces import TokenUsage


class CompletionRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A text to continue. A model refuses what it cannot do, with the parameter's name."""

    model: Name
    """The model: one of `GET /openai/v1/models`."""
    prompt: str | list[str | int | list[int]]
    """The text, or a list with one text. Tokens are refused."""
    max_tokens: Tokens | None = None
    """The most tokens of the answer, by default 16, as in OpenAI's API."""
    temperature: Temperature | None = None
    """How random the answer is. By default, the model decides."""
    top_p: TopP | None = None
    """The share of likely tokens to choose from."""
    stop: Stop | None = None
    """Texts at which the answer ends."""
    seed: Seed | None = None
    """A number with which the model repeats itself."""
    frequency_penalty: Penalty | None = None
    """How much to avoid frequent tokens."""
    presence_penalty: Penalty | None = None
    """How much to avoid tokens that were used."""
    echo: bool | None = None
    """Whether the answer begins with the prompt."""
    n: Annotated[int, Meta(ge=1, le=128)] | None = None
    """Only 1."""
    best_of: Annotated[int, Meta(ge=1, le=20)] | None = None
    """Only 1."""
    stream: bool | None = None
    """Whether to stream the answer as the model makes it."""
    stream_options: StreamOptions | None = None
    """How to stream; only with `stream`."""
    logprobs: Annotated[int, Meta(ge=0, le=5)] | None = None
    """Only null."""
    logit_bias: dict[str, float] | None = None
    """Only null, or an empty object."""
    suffix: str | None = None
    """Only null."""
    user: str | None = None
    """Without effect: a label of yours."""
    service_tier: Tier | None = None
    """As for chat completions; OpenAI's own completions do not have it."""
    metadata: Metadata | None = None
    """As for chat completions; OpenAI's own completions do not have it."""
    reuse: Reuse | msgspec.UnsetType | None = msgspec.UNSET
    """The `reuse` of the job; OpenAI does not have it."""


class CompletionChoice(msgspec.Struct, frozen=True, kw_only=True):
    """An answer."""

    index: int
    """Always 0."""
    text: str
    """The text."""
    logprobs: None = None
    """Always null."""
    finish_reason: str | None
    """Why it ends: `stop`, `length`, or what the model says; null in a stream before the end."""


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """The text that a model has written."""

    id: str
    """The id of the job, with another prefix."""
    object: str
    """Always `text_completion`."""
    created: int
    """When the job was submitted, in unix seconds."""
    model: str
    """The model that ran."""
    choices: list[CompletionChoice]
    """The text."""
    usage: TokenUsage | msgspec.UnsetType | None = msgspec.UNSET
    """How many tokens it took; null if the model does not tell. A stream has it only if asked for."""
