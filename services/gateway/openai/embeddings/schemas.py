"""Bodies of embeddings: every parameter of OpenAI's schema."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from common.job_options import Name, Reuse
from services.gateway.openai.calls.translation import Metadata, Tier

MAX_TEXTS = 2048  # OpenAI's own limit


class EmbeddingRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Texts to embed, all in one job."""

    model: Name
    """The model: one of `GET /openai/v1/models` whose kind is `embeddings`."""
    input: str | Annotated[list[str | int | list[int]], Meta(min_length=1, max_length=MAX_TEXTS)]
    """A text or a list of texts, at most as many as the model's batch has. Tokens are refused."""
    encoding_format: Literal["float", "base64"] | None = None
    """`float` (the default) for numbers, or `base64` for little-endian FP32, which is smaller and quicker."""
    dimensions: Annotated[int, Meta(ge=1)] | None = None
    """Only the length that the model's vectors have."""
    user: str | None = None
    """Without effect: a label of yours."""
    service_tier: Tier | None = None
    """As for chat completions; OpenAI's own embeddings do not have it."""
    metadata: Metadata | None = None
    """As for chat completions; OpenAI's own embeddings do not have it."""
    reuse: Reuse | msgspec.UnsetType | None = msgspec.UNSET
    """The `reuse` of the job; OpenAI does not have it."""


class Embedding(msgspec.Struct, frozen=True, kw_only=True):
    """The vector of a text."""

    object: str
    """Always `embedding`."""
    index: int
    """The number of the text, from 0."""
    embedding: list[float] | str
    """The vector, in the form that was asked for."""


class EmbeddingUsage(msgspec.Struct, frozen=True, kw_only=True):
    """How many tokens the texts have."""

    prompt_tokens: int
    """All of them."""
    total_tokens: int
    """The same."""


class EmbeddingList(msgspec.Struct, frozen=True, kw_only=True):
    """The vectors of the texts."""

    object: str
    """Always `list`."""
    data: list[Embedding]
    """The vectors, in the order of the texts."""
    model: str
    """The model that ran."""
    usage: EmbeddingUsage | None
    """How many tokens the texts have; null if the model does not tell."""
