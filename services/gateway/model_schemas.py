"""The model catalogue as it is answered."""

import msgspec

from common.jobs import Priority
from common.tensors import Datatype


class TensorView(msgspec.Struct, frozen=True):
    """-1 in the shape stands for any size; a batch dimension is included."""

    name: str
    datatype: Datatype
    shape: list[int]
    optional: bool


class VersionView(msgspec.Struct, frozen=True):
    version: str
    ready: bool


class ModelView(msgspec.Struct, frozen=True, kw_only=True):
    """A model, as its newest version declares it; `queue` counts waiting jobs by priority."""

    name: str
    ready: bool
    streaming: bool
    max_batch_size: int
    versions: list[VersionView]
    inputs: list[TensorView]
    outputs: list[TensorView]
    queue: dict[Priority, int]


class ModelList(msgspec.Struct, frozen=True):
    items: list[ModelView]
    next_cursor: str | None = None
