"""Responses, as clients see them."""

from typing import Literal

import msgspec

from services.gateway.openai.calls.parameters import AnyObject

ResponseStatus = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]


class OutputText(msgspec.Struct, frozen=True):
    """The text of an answer."""

    text: str
    """The text."""
    type: str = "output_text"
    """Always `output_text`."""
    annotations: list[AnyObject] = []
    """Always empty."""
    logprobs: list[AnyObject] = []
    """Always empty."""


class OutputMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a model."""

    id: str
    """The id of the message: that of the job with another prefix."""
    type: str = "message"
    """Always `message`."""
    role: str = "assistant"
    """Always `assistant`."""
    status: Literal["in_progress", "completed", "incomplete"]
    """`incomplete`: the model had to stop."""
    content: list[OutputText]
    """One text."""


class CachedTokens(msgspec.Struct, frozen=True):
    """Parts of the tokens of an input."""

    cached_tokens: int = 0
    """Always 0: models do not tell."""
    cache_write_tokens: int = 0
    """Always 0: models do not tell."""


class ReasoningTokens(msgspec.Struct, frozen=True):
    """Parts of the tokens of an answer."""

    reasoning_tokens: int = 0
    """Always 0: models do not tell."""


class ResponseUsage(msgspec.Struct, frozen=True, kw_only=True):
    """How many tokens a response took."""

    input_tokens: int
    """Tokens of the whole conversation."""
    input_tokens_details: CachedTokens = CachedTokens()
    """Parts of these."""
    output_tokens: int
    """Tokens of the answer."""
    output_tokens_details: ReasoningTokens = ReasoningTokens()
    """Parts of these."""
    total_tokens: int
    """Both together."""


class ResponseFailure(msgspec.Struct, frozen=True):
    """Why a response failed."""

    code: Literal["server_error", "invalid_prompt"]
    """`invalid_prompt` if the model refuses the request."""
    message: str
    """What is wrong, for people. It may change."""
    type: str
    """The error code of the job: see the reference."""


class IncompleteDetails(msgspec.Struct, frozen=True):
    """Why a response is incomplete."""

    reason: Literal["max_output_tokens", "content_filter"]
    """The reason."""


class OpenAIResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A response. It is a job: its state, its output and its request are those of the job."""

    id: str
    """The id of the job, with another prefix."""
    object: str = "response"
    """Always `response`."""
    created_at: int
    """When the job was submitted, in unix seconds."""
    completed_at: int | None
    """When it was completed, in unix seconds; null until then, and if it was not."""
    status: ResponseStatus
    """The state. All but `queued` and `in_progress` are final."""
    background: bool
    """As in the request."""
    model: str
    """The model that runs the job."""
    output: list[OutputMessage]
    """The answer: one message; empty until the end, and without an answer."""
    error: ResponseFailure | None
    """Why the response failed; null otherwise."""
    incomplete_details: IncompleteDetails | None
    """Why the answer is incomplete; null otherwise."""
    usage: ResponseUsage | None
    """How many tokens it took; null until the end, and if the model does not tell."""
    instructions: str | None
    """As in the request."""
    previous_response_id: str | None
    """As in the request."""
    max_output_tokens: int | None
    """As in the request."""
    temperature: float | None
    """As in the request; null: the model decides."""
    top_p: float | None
    """As in the request; null: the model decides."""
    text: AnyObject
    """As in the request."""
    reasoning: AnyObject
    """As in the request."""
    truncation: str
    """Always `disabled`."""
    parallel_tool_calls: bool
    """As in the request."""
    tool_choice: str
    """As in the request."""
    tools: list[AnyObject]
    """Always empty."""
    top_logprobs: int
    """Always 0."""
    max_tool_calls: None
    """Always null."""
    metadata: AnyObject
    """As in the request."""
    service_tier: str
    """The priority of the job: `flex`, `default` or `priority`."""
    store: bool
    """As in the request."""
    user: str | None
    """As in the request."""
    safety_identifier: str | None
    """As in the request."""
    prompt_cache_key: str | None
    """As in the request."""


class InputItem(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a request."""

    id: str
    """The id of the message, for `after`."""
    type: str = "message"
    """Always `message`."""
    role: str
    """Who says it."""
    status: str = "completed"
    """Always `completed`."""
    content: list[AnyObject]
    """The parts, each with a text."""


class InputItemList(msgspec.Struct, frozen=True, kw_only=True):
    """The messages of a request."""

    object: str = "list"
    """Always `list`."""
    data: list[InputItem]
    """The messages."""
    first_id: str | None
    """The id of the first; null without any."""
    last_id: str | None
    """The id of the last; null without any."""
    has_more: bool
    """Whether more follow."""


class DeletedResponse(msgspec.Struct, frozen=True):
    """A response that was deleted."""

    id: str
    """The id of the response."""
    object: str = "response"
    """Always `response`."""
    deleted: bool = True
    """Always true."""
