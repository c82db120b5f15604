"""Input tensors as clients send them, and the catalogue as it is answered."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from common.jobs import Priority
from common.tensors import Datatype


class InputTensor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tensor as in the Open Inference Protocol; data row-major, flat or nested."""

    name: str
    shape: list[Annotated[int, Meta(ge=0, le=2**63 - 1)]]
    datatype: Datatype
    data: Any  # of a request under /v2 also bytes, as they came


class TensorView(msgspec.Struct, frozen=True):
    """-1 in the shape stands for any size; a batch dimension is included."""

    name: str
    datatype: Datatype
    shape: list[int]
    optional: bool


class VersionView(msgspec.Struct, frozen=True):
    """`reason` says why Triton does not serve the version; null if it does, or if nobody knows."""

    version: str
    ready: bool
    reason: str | None


class ModelView(msgspec.Struct, frozen=True, kw_only=True):
    """A model, as its newest version declares it; `queue` counts waiting jobs by priority.

    An operator may limit how many of its jobs run at a time, of all tenants and of each tenant. While the model is
    `paused`, its jobs wait.

    `reason` says why a model that is not ready does not run: that Triton could not load it, for example. If Triton has
    never served it, its inputs are unknown, and a submit is answered 409.
    """

    name: str
    ready: bool
    reason: str | None
    streaming: bool
    max_batch_size: int
    versions: list[VersionView]
    inputs: list[TensorView]
    outputs: list[TensorView]
    queue: dict[Priority, int]
    paused: bool
    max_running: int | None
    max_running_per_tenant: int | None


class ModelList(msgspec.Struct, frozen=True):
    items: list[ModelView]
    next_cursor: str | None = None
