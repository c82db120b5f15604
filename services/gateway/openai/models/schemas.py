"""Models as OpenAI's API has them."""

from collections.abc import Sequence
from typing import Literal

import msgspec


class OpenAIModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that speaks OpenAI's API."""

    id: str
    """The name of the model."""
    object: Literal["model"] = "model"
    """Always `model`."""
    created: int = 0
    """Always 0: Triton does not tell when a model was made."""
    owned_by: str = "charonia"
    """Always `charonia`."""
    endpoints: Sequence[str]
    """The calls that the model takes, by the names that batches have for them, such as `/v1/chat/completions`."""


class OpenAIModelList(msgspec.Struct, frozen=True, kw_only=True):
    """The models that speak OpenAI's API, and that the key may run."""

    object: Literal["list"] = "list"
    """Always `list`."""
    data: list[OpenAIModel]
    """The models, by name."""
