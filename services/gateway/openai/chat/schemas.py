"""Bodies of chat completions.

Every parameter of OpenAI's schema is here, so that none is ignored in silence. Docstrings name those that have no
effect, which is OpenAI's own definition of them.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from common.job_options import Name, Reuse
from services.gateway.openai.calls.parameters import (
    AnyObject,
    Penalty,
    Seed,
    Stop,
    StreamOptions,
    Temperature,
    Tokens,
    TopP,
)
from services.gateway.openai.calls.translation import Metadata, Tier
from services.gateway.openai.kinds.pieces import TokenUsage


class ChatMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A message of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    """Who says it. `developer` counts as `system` where a chat template writes the prompt."""
    content: str | list[AnyObject] | None = None
    """What they say: a text, or parts. Parts that are no text are only for models that take them."""
    name: str | None = None
    """A name of the speaker, only for models and templates that take it."""
    tool_calls: list[AnyObject] | None = None
    """The calls that the assistant made, only for models with tools."""
    tool_call_id: Name | None = None
    """The call that this is the result of, only for models with tools."""
    refusal: str | None = None
    """Only null."""
    audio: AnyObject | None = None
    """Only null."""
    function_call: AnyObject | None = None
    """Only null: use `tool_calls`."""


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A conversation to continue. A model refuses what it cannot do, with the parameter's name."""

    model: Name
    """The model: one of `GET /openai/v1/models`."""
    messages: Annotated[list[ChatMessage], Meta(min_length=1)]
    """The conversation so far."""
    max_completion_tokens: Tokens | None = None
    """The most tokens of the answer. By default what the model's configuration says, or 4096."""
    max_tokens: Tokens | None = None
    """The older name of `max_completion_tokens`."""
    temperature: Temperature | None = None
    """How random the answer is. By default, the model decides."""
    top_p: TopP | None = None
    """The share of likely tokens to choose from."""
    stop: Stop | None = None
    """A text at which the answer ends, or several."""
    seed: Seed | None = None
    """A number with which the model repeats itself."""
    frequency_penalty: Penalty | None = None
    """How much to avoid frequent tokens."""
    presence_penalty: Penalty | None = None
    """How much to avoid tokens that were used."""
    n: Annotated[int, Meta(ge=1, le=128)] | None = None
    """Only 1."""
    stream: bool | None = None
    """Whether to stream the answer as the model makes it."""
    stream_options: StreamOptions | None = None
    """How to stream; only with `stream`."""
    service_tier: Tier | None = None
    """`flex` is the low priority of jobs, `default` and `auto` the normal one, and `priority` the high one."""
    metadata: Metadata | None = None
    """The `metadata` of the job."""
    reuse: Reuse | msgspec.UnsetType | None = msgspec.UNSET
    """The `reuse` of the job; OpenAI does not have it."""
    response_format: AnyObject | None = None
    """`{"type": "text"}`; others only for models that take them."""
    tools: list[AnyObject] | None = None
    """Only for models with tools."""
    tool_choice: str | AnyObject | None = None
    """Only for models with tools."""
    parallel_tool_calls: bool | None = None
    """Only for models with tools."""
    logit_bias: dict[str, float] | None = None
    """Only for models that take it."""
    logprobs: bool | None = None
    """Only for models that take it."""
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    """Only for models that take it."""
    reasoning_effort: str | None = None
    """Only for models that take it."""
    verbosity: str | None = None
    """Only for models that take it."""
    modalities: list[str] | None = None
    """Only `["text"]`."""
    audio: AnyObject | None = None
    """Only null."""
    prediction: AnyObject | None = None
    """Only for models that take it."""
    web_search_options: AnyObject | None = None
    """Only for models that take it."""
    moderation: AnyObject | None = None
    """Only null."""
    functions: list[AnyObject] | None = None
    """Only null: use `tools`."""
    function_call: str | AnyObject | None = None
    """Only null: use `tool_choice`."""
    user: str | None = None
    """Without effect: a label of yours."""
    safety_identifier: str | None = None
    """Without effect: a label of yours."""
    store: bool | None = None
    """Without effect: the job is kept as all jobs are."""
    prompt_cache_key: str | None = None
    """Without effect: it is a hint for a cache."""
    prompt_cache_options: AnyObject | None = None
    """Without effect: it is a hint for a cache."""
    prompt_cache_retention: str | None = None
    """Without effect: it is a hint for a cache."""


class AnswerMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The model's answer."""

    role: str
    """Always `assistant`."""
    content: str | None
    """The text; null if there are only tool calls."""
    refusal: None
    """Always null."""
    tool_calls: list[AnyObject] | None = None
    """The calls that the model makes, as it wrote them; absent without any."""


class ChatChoice(msgspec.Struct, frozen=True, kw_only=True):
    """An answer."""

    index: int
    """Always 0."""
    message: AnswerMessage
    """The answer."""
    logprobs: None = None
    """Always null."""
    finish_reason: str
    """Why it ends: `stop`, `length`, `tool_calls`, or what the model says; `stop` if it says nothing."""


class ChatCompletion(msgspec.Struct, frozen=True, kw_only=True):
    """The model's answer to a conversation."""

    id: str
    """The id of the job, with another prefix."""
    object: str
    """Always `chat.completion`."""
    created: int
    """When the job was submitted, in unix seconds."""
    model: str
    """The model that ran."""
    choices: list[ChatChoice]
    """The answer."""
    usage: TokenUsage | None
    """How many tokens it took; null if the model does not tell."""
    service_tier: str
    """The priority of the job: `flex`, `default` or `priority`."""
