"""What the API answers. Fields that a newer gateway adds are ignored."""

from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

import msgspec

Status = Literal["queued", "processing", "canceling", "succeeded", "failed", "canceled", "expired"]
Priority = Literal["high", "normal", "low"]
TERMINAL = frozenset({"succeeded", "failed", "canceled", "expired"})

Item = TypeVar("Item")


class FieldError(msgspec.Struct, frozen=True):
    """What is wrong with one field. `pointer` is a JSON pointer (RFC 6901), or the name of a parameter."""

    pointer: str
    detail: str

    def __str__(self) -> str:
        return f"{self.pointer}: {self.detail}" if self.pointer else self.detail


class Output(msgspec.Struct, frozen=True):
    """An output tensor; `data` is flat and row-major. `response` numbers those of a streaming model from 0."""

    name: str
    datatype: str
    shape: list[int]
    data: list[Any]
    response: int = -1


class Failure(msgspec.Struct, frozen=True):
    """Why a job, or its latest attempt, failed."""

    code: str
    message: str
    retryable: bool = False


class Metrics(msgspec.Struct, frozen=True):
    """In milliseconds; None until known."""

    queue_ms: int | None = None
    inference_ms: int | None = None
    total_ms: int | None = None


class JobData(msgspec.Struct, frozen=True, kw_only=True):
    """A job as the API shows it."""

    id: str
    status: Status
    model: str
    version: str | None
    priority: Priority
    attempt: int
    max_attempts: int
    created_at: datetime
    run_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    expires_at: datetime | None
    outputs: list[Output] | None
    outputs_omitted: str | None = None
    outputs_url: str | None = None
    error: Failure | None
    queue_position: int | None
    webhook_status: str
    metadata: dict[str, Any]
    trace_id: str
    metrics: Metrics

    @property
    def has_ended(self) -> bool:
        return self.status in TERMINAL


class JobOutputs(msgspec.Struct, frozen=True):
    """The answer to a read of a job's outputs."""

    id: str
    outputs: list[Output]


class AttemptData(msgspec.Struct, frozen=True, kw_only=True):
    """An ended attempt of a job; `count` attempts in a row ended in the same way."""

    attempt: int
    count: int
    status: str
    model: str
    worker: str
    started_at: datetime
    finished_at: datetime
    duration_ms: int
    error_code: str | None
    error_message: str | None


class Page(msgspec.Struct, Generic[Item], frozen=True):
    """A page of a list; `next_cursor` is None on the last one."""

    items: list[Item]
    next_cursor: str | None = None


class TensorInfo(msgspec.Struct, frozen=True):
    """An input or output of a model. -1 in the shape is any size; a batch dimension is included."""

    name: str
    datatype: str
    shape: list[int]
    optional: bool = False


class VersionInfo(msgspec.Struct, frozen=True):
    version: str
    ready: bool
    reason: str | None = None


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A model: its inputs and outputs, whether it is ready, and how many jobs wait by priority."""

    name: str
    ready: bool
    reason: str | None = None
    streaming: bool
    max_batch_size: int
    versions: list[VersionInfo]
    inputs: list[TensorInfo]
    outputs: list[TensorInfo]
    queue: dict[str, int]
    paused: bool = False
    max_running: int | None = None
    max_running_per_tenant: int | None = None


class BatchData(msgspec.Struct, frozen=True, kw_only=True):
    """A batch, and its jobs by status."""

    id: str
    status: Literal["processing", "completed"]
    total: int
    accepted: int
    counts: dict[str, int]
    created_at: datetime
    finished_at: datetime | None

    @property
    def ended(self) -> int:
        """How many items have a final result; refused items count."""
        return self.total - sum(count for status, count in self.counts.items() if status not in TERMINAL)


class ItemProblem(msgspec.Struct, frozen=True):
    """Why an item of a batch has no job."""

    type: str
    detail: str
    errors: list[FieldError] = []


class BatchLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the results of a batch: a job, or why there is none."""

    index: int
    custom_id: str | None
    job: JobData | None
    error: ItemProblem | None


class Replayed(msgspec.Struct, frozen=True):
    """The jobs that a replay queued again and those it could not; whether the filter matches more."""

    replayed: list[str]
    skipped: list[str]
    remaining: bool


class WebhookData(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription. `secret` is shown only when it is created; `public_key` belongs to ed25519."""

    id: str
    url: str
    events: list[str]
    models: list[str] | None
    description: str | None
    headers: dict[str, str | None] | None
    signing: Literal["hmac", "ed25519"]
    rate_limit: int | None
    ordered: bool = False
    status: Literal["enabled", "disabled"]
    disabled_at: datetime | None
    disabled_reason: str | None
    created_at: datetime
    secret: str | None = None
    old_secret_until: datetime | None = None
    public_key: str | None = None
    warnings: list[FieldError] = []


class Secret(msgspec.Struct, frozen=True):
    """The tenant's secret, which signs the webhooks of single jobs."""

    secret: str
    old_secret_until: datetime | None = None


class DeliveryAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt to deliver. `error` is None for success; `response` is the first bytes of the answer."""

    number: int
    started_at: datetime
    latency_ms: int
    status_code: int | None
    error: str | None
    response: str


class TestedDelivery(DeliveryAttempt, frozen=True, kw_only=True):
    """The attempt that a test made."""

    delivery_id: str


class DeliveryData(msgspec.Struct, frozen=True, kw_only=True):
    """An event on its way to one receiver."""

    id: str
    event_id: str
    event_type: str
    job_id: str | None
    webhook_id: str | None
    url: str
    status: Literal["pending", "succeeded", "exhausted", "canceled"]
    created_at: datetime
    next_attempt_at: datetime | None
    finished_at: datetime | None
    attempts: list[DeliveryAttempt]


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a recovery."""

    id: str
    webhook_id: str
    since: datetime
    until: datetime
    status: Literal["running", "done"]
    recovered: int


class Problem(msgspec.Struct, frozen=True):
    """The body of an error (RFC 9457)."""

    type: str = ""
    detail: str = ""
    errors: list[FieldError] = []

    @property
    def code(self) -> str:
        return self.type.rpartition(":")[2]
