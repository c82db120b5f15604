"""Bodies of requests for responses.

Every parameter of OpenAI's schema is here, so that none is ignored in silence. Docstrings name those that have no
effect, which is OpenAI's own definition of them.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from common.ids import make_pattern
from common.job_options import Name, Reuse
from services.gateway.openai.calls.parameters import AnyObject, Temperature, Tokens, TopP
from services.gateway.openai.calls.translation import Metadata, Tier
from services.gateway.openai.ids import Prefix


class TextPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a message."""

    type: Literal["input_text", "output_text"]
    """`input_text`, or `output_text` for what a model has said. There are no images, files and sounds."""
    text: str
    """The text."""
    annotations: list[AnyObject] | None = None
    """Without effect: a part of an answer has it."""
    logprobs: list[AnyObject] | None = None
    """Without effect: a part of an answer has it."""
    prompt_cache_breakpoint: AnyObject | None = None
    """Without effect: it is a hint for a cache."""


class InputMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message of a conversation. A message of an `output` is one too."""

    role: Literal["user", "assistant", "system", "developer"]
    """Who says it. `developer` counts as `system` where a chat template writes the prompt."""
    content: str | list[TextPart]
    """What they say: a text, or parts."""
    type: Literal["message"] = "message"
    """Only `message`."""
    id: str | None = None
    """Without effect: the id that the message had."""
    status: str | None = None
    """Without effect: the state that the message had."""
    phase: str | None = None
    """Without effect: a label of the model's answers."""

    @property
    def text(self) -> str:
        """The whole text; the parts are in lines of their own."""
        return self.content if isinstance(self.content, str) else "\n".join(part.text for part in self.content)


# Only documented: a wrong id is that of no response.
ResponseId = Annotated[str, Meta(extra_json_schema={"pattern": make_pattern(Prefix.RESPONSE)})]
Input = str | Annotated[list[InputMessage], Meta(min_length=1)]


class ResponseStreamOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to stream a response."""

    include_obfuscation: bool | None = None
    """Without effect: streams are not padded."""


class ResponseRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question. A model refuses what it cannot do, with the parameter's name."""

    model: Name
    """The model: one of `GET /openai/v1/models` that takes messages."""
    input: Input
    """The question: a text, which a user says, or messages."""
    instructions: str | None = None
    """What the system says before the conversation. It is not kept for the next response."""
    previous_response_id: ResponseId | None = None
    """The response to continue: its conversation and its answer come before `input`. At most 100 responses in a row."""
    background: bool | None = None
    """Whether to answer at once, with the status `queued`. Poll the response then, stream it, or wait for a webhook."""
    stream: bool | None = None
    """Whether to stream the answer as the model makes it."""
    stream_options: ResponseStreamOptions | None = None
    """How to stream; only with `stream`."""
    store: bool | None = None
    """False: nobody can get, cancel or continue the response. Its job is removed 10 minutes after its end."""
    max_output_tokens: Tokens | None = None
    """The most tokens of the answer, which is `incomplete` then. By default what the model's configuration says."""
    temperature: Temperature | None = None
    """How random the answer is. By default, the model decides."""
    top_p: TopP | None = None
    """The share of likely tokens to choose from."""
    metadata: Metadata | None = None
    """The `metadata` of the job."""
    reuse: Reuse | msgspec.UnsetType | None = msgspec.UNSET
    """The `reuse` of the job; OpenAI does not have it."""
    service_tier: Tier | None = None
    """`flex` is the low priority of jobs, `default` and `auto` the normal one, and `priority` the high one."""
    text: AnyObject | None = None
    """The `format`, `{"type": "text"}`, and the `verbosity`; others only for models that take them."""
    reasoning: AnyObject | None = None
    """The `effort`, only for models that take it."""
    truncation: str | None = None
    """Only `disabled`: nothing is left out of a conversation."""
    tools: list[AnyObject] | None = None
    """Only an empty list."""
    tool_choice: str | AnyObject | None = None
    """Only `none` or `auto`."""
    parallel_tool_calls: bool | None = None
    """Without effect: there are no tools."""
    max_tool_calls: int | None = None
    """Only null."""
    include: list[str] | None = None
    """Only an empty list."""
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    """Only 0."""
    access_programs: AnyObject | None = None
    """Only null."""
    background_options: AnyObject | None = None
    """Only null."""
    context_management: list[AnyObject] | None = None
    """Only an empty list."""
    conversation: str | AnyObject | None = None
    """Only null: use `previous_response_id`."""
    image: AnyObject | None = None
    """Only null."""
    moderation: AnyObject | None = None
    """Only null."""
    prompt: AnyObject | None = None
    """Only null: there are no stored prompts."""
    user: str | None = None
    """Without effect: a label of yours."""
    safety_identifier: str | None = None
    """Without effect: a label of yours."""
    prompt_cache_key: str | None = None
    """Without effect: it is a hint for a cache."""
    prompt_cache_options: AnyObject | None = None
    """Without effect: it is a hint for a cache. `prewarm` is refused."""
    prompt_cache_retention: str | None = None
    """Without effect: it is a hint for a cache."""
