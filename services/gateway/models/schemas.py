"""The catalogue as it is answered."""

from typing import Literal

import msgspec

from common.job_states import Priority
from common.tensors import Datatype
from common.views.job import Time
from services.gateway.models.store import ResidencyState


class TensorView(msgspec.Struct, frozen=True):
    """An input or output of a model."""

    name: str
    """The name of the input or output."""
    datatype: Datatype
    """The type of each element."""
    shape: list[int]
    """The size of each dimension, with the batch dimension first. -1 is any size."""
    optional: bool
    """Whether a request may leave the input out."""
    reference: bool
    """Whether the model reads a file itself, by its URL. The input must be `{"file"}`, and the file may be larger."""
    max_bytes: int | None
    """The most bytes of a file or URL for this input; null for an output, and if the model reads the file itself."""


class VersionView(msgspec.Struct, frozen=True):
    """A version of a model."""

    version: str
    """The name of the version."""
    ready: bool
    """Whether the version can run now."""
    reason: str | None
    """Why Triton does not serve the version; null if it does, or if nobody knows."""


class ResidencyView(msgspec.Struct, frozen=True, kw_only=True):
    """Whether Triton holds the model, if the queue decides that.

    Of several Tritons, it is the one where a job can start first.
    """

    state: ResidencyState
    """`absent`, `loading`, `resident`, or `draining`: no job of it starts, and it is unloaded soon."""
    memory: int | None
    """The bytes of Triton that the model counts for while it is not absent. Null: they are not known yet."""
    load_seconds: float | None
    """How long a load takes, on average. Null: it was never loaded."""
    place: int | None
    """The number of the model in the order of loads, from 1. Null: nobody waits for it."""
    expected_at: Time | None
    """When it can probably run. Null: it is not known, or nobody waits for it."""
    why: str | None
    """Why it has this place, as a sentence. Null: nobody waits for it."""


class MemoryView(msgspec.Struct, frozen=True):
    """The memory for models of all Tritons together where the queue decides what they hold."""

    used: int
    """The bytes that the models in memory count for, also those that your key may not run."""
    budget: int
    """The bytes that an operator allows for models."""


class ModelView(msgspec.Struct, frozen=True, kw_only=True):
    """A model or a pipeline, as its newest version declares it.

    If Triton has never served it, its inputs are unknown, and a submit is answered 409. A model whose dispatchers have
    all been dead or frozen for ten seconds is not `ready`, and has no slots.
    """

    kind: Literal["model", "pipeline"]
    """What it is: `model`, a model of Triton, or `pipeline`. A later release may have other kinds."""
    name: str
    """The name of the model."""
    ready: bool
    """Whether the model can run now; of a pipeline, whether the models of all steps can."""
    reason: str | None
    """Why it does not run, such as Triton's error when it loads the model; null if it runs, or if nobody knows."""
    streaming: bool
    """Whether the model sends partial outputs."""
    max_batch_size: int | None
    """The largest batch that the model takes; 0 without batching. Null of a pipeline."""
    versions: list[VersionView]
    """The versions of the model; of a pipeline only the newest."""
    inputs: list[TensorView]
    """The inputs of the model."""
    outputs: list[TensorView]
    """The outputs of the model."""
    queue: dict[Priority, int] | None
    """The queued jobs of all tenants, by priority. Null of a pipeline."""
    slots: int | None
    """The jobs that its live dispatchers run at a time, or up to twice as many if inferences are quick.

    0: none can run it now. Null of a pipeline.
    """
    running: int | None
    """The jobs of all tenants that run now. Null of a pipeline."""
    paused: bool
    """Whether an operator has paused the model. Its jobs wait until then."""
    max_running: int | None
    """How many jobs of the model an operator lets run at a time; null without such a limit."""
    max_running_per_tenant: int | None
    """The same for the jobs of one tenant."""
    reuse_seconds: float | None
    """How many seconds old a result may be that a job takes if its `reuse` is absent. 0: jobs of the model take none.

    Null: only jobs that ask for it do, and of a pipeline.
    """
    loaded_at: Time | None
    """When Charonia saw that Triton had loaded what runs now. Results from before it answer no later job.

    They do if `charonia.weights` in the model's configuration is the same. Null: it is not known, and of a pipeline.
    """
    residency: ResidencyView | None
    """Whether Triton holds the model. A model that is absent is not `ready`, and its jobs let Triton load it.

    Null: all models of its Triton stay loaded, and of a pipeline.
    """


class Percentiles(msgspec.Struct, frozen=True):
    """In whole milliseconds, null without jobs."""

    p50: int | None
    """Half of the jobs took no longer."""
    p95: int | None
    """95 % of the jobs took no longer."""


class RecentView(msgspec.Struct, frozen=True):
    """Your latest jobs of the model that succeeded: up to 200, submitted within the last hour."""

    jobs: int
    """How many jobs these are."""
    queue_ms: Percentiles
    """How long they waited: `metrics.queue_ms`."""
    inference_ms: Percentiles
    """How long they ran on Triton: `metrics.inference_ms`."""


class TritonTimes(msgspec.Struct, frozen=True):
    """Means of the latest requests that Triton counted, of all its clients, in milliseconds. Null: there were none.

    A job's `inference_ms` has both parts, and the way to Triton and back. They are at most ten seconds old, or of the
    latest requests before.
    """

    queue_ms: float | None
    """In Triton's own queue."""
    compute_ms: float | None
    """Computed, with the copies of inputs and outputs."""


class ModelDetails(ModelView, frozen=True, kw_only=True):
    """A model, with how long your recent jobs waited and ran, and what Triton reports."""

    recent: RecentView
    """How long your recent jobs waited and ran."""
    triton: TritonTimes
    """How long requests waited and were computed inside Triton."""


class ModelList(msgspec.Struct, frozen=True):
    """The models that a key may run."""

    items: list[ModelView]
    """The models, by name."""
    next_cursor: str | None
    """The `cursor` of the next page; null on the last one. So far there is one page."""
    memory: MemoryView | None
    """The memory for models. Null: all models stay loaded."""
