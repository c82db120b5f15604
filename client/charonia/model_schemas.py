"""What the API answers of models. Fields that a newer gateway adds are ignored."""

from datetime import datetime

import msgspec

from charonia.schemas import ApiObject


class TensorInfo(msgspec.Struct, frozen=True):
    """An input or output of a model. -1 in the shape is any size; a batch dimension is included.

    With `reference`, the model reads a file itself, so the input must be one. `max_bytes` is the most that a file for
    this input may have.
    """

    name: str
    datatype: str
    shape: list[int]
    optional: bool = False
    reference: bool = False
    max_bytes: int | None = None


class VersionInfo(msgspec.Struct, frozen=True):
    """A version of a model, and why it is not ready."""

    version: str
    ready: bool
    reason: str | None = None


class Percentiles(msgspec.Struct, frozen=True):
    """In whole milliseconds; None without jobs."""

    p50: int | None
    p95: int | None


class RecentJobs(msgspec.Struct, frozen=True):
    """Your latest jobs of a model that succeeded: how many these are, how long they waited and ran."""

    jobs: int
    queue_ms: Percentiles
    inference_ms: Percentiles


class TritonTimes(msgspec.Struct, frozen=True):
    """Means of the latest requests inside Triton, of all its clients, in milliseconds."""

    queue_ms: float | None
    compute_ms: float | None


class Residency(msgspec.Struct, frozen=True, kw_only=True):
    """Whether Triton holds a model: `absent`, `loading`, `resident`, or `draining` before it is unloaded.

    `memory` is in bytes. `place` is the number in the order of loads, `expected_at` when the model can probably run,
    and `why` the reason. These three are None if nobody waits for the model.
    """

    state: str
    memory: int | None = None
    load_seconds: float | None = None
    place: int | None = None
    expected_at: datetime | None = None
    why: str | None = None


class ModelInfo(ApiObject, frozen=True, kw_only=True):
    """A model: its inputs and outputs, whether it is ready, and how many jobs wait by priority.

    `slots` is how many jobs its dispatchers run at a time. `recent` and `triton` are absent in lists. A pipeline has
    no `max_batch_size`, `queue`, `slots` or `running`. `reuse_seconds` is how old a result may be that a job takes
    without `reuse`. `loaded_at` is when the model was loaded that runs now. `residency` is None if all models stay
    loaded.
    """

    kind: str = "model"
    name: str
    ready: bool
    reason: str | None = None
    streaming: bool
    max_batch_size: int | None
    versions: list[VersionInfo]
    inputs: list[TensorInfo]
    outputs: list[TensorInfo]
    queue: dict[str, int] | None
    slots: int | None = 0
    running: int | None = 0
    paused: bool = False
    max_running: int | None = None
    max_running_per_tenant: int | None = None
    reuse_seconds: float | None = None
    loaded_at: datetime | None = None
    residency: Residency | None = None
    recent: RecentJobs | None = None
    triton: TritonTimes | None = None
