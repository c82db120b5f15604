"""What clients send, and what is answered besides the Job: of jobs, batches and events.

Unknown fields are refused, so a typo never passes.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from common.batch_view import BatchView
from common.job_view import JobView, Object, Outputs, Time
from common.jobs import Priority
from common.tensors import Datatype
from services.gateway.errors import FieldError

CallbackEvent = Literal["job.started", "job.succeeded", "job.failed", "job.canceled", "job.expired"]
Url = Annotated[str, Meta(min_length=1, max_length=2048, description="https, to a public address")]
# PostgreSQL's text has no NUL.
Name = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[^\x00]*$")]


class DeadFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which failed jobs; what is left out is open."""

    model: Name | None = None
    error: Name | None = None
    created_after: Annotated[datetime, Meta(tz=True)] | None = None
    created_before: Annotated[datetime, Meta(tz=True)] | None = None


class InputTensor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tensor as in the Open Inference Protocol; data row-major, flat or nested."""

    name: str
    shape: list[Annotated[int, Meta(ge=0, le=2**63 - 1)]]
    datatype: Datatype
    data: Any  # of a request under /v2 also bytes, as they came


class Callback(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where to send this job's events; without `events`, those that end it."""

    url: Url
    events: Annotated[list[CallbackEvent], Meta(min_length=1, max_length=10)] = msgspec.field(
        default_factory=lambda: ["job.succeeded", "job.failed", "job.canceled", "job.expired"]
    )


class RetryRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Exponential backoff with full jitter; delays in seconds."""

    max_attempts: Annotated[int, Meta(ge=1, le=100)] = 5
    initial_delay: Annotated[float, Meta(ge=0, le=86_400)] = 1.0
    max_delay: Annotated[float, Meta(ge=0, le=604_800, description="300, or initial_delay if that is more")] | None = (
        None
    )

    @property
    def longest(self) -> float:
        return max(300.0, self.initial_delay) if self.max_delay is None else self.max_delay


class SubmitJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    model: Name
    version: Name | None = None
    inputs: Annotated[
        dict[str, Any] | list[InputTensor],
        Meta(description='by name: nested lists or {"base64"}; or a list as in the Open Inference Protocol'),
    ]
    parameters: dict[str, bool | int | float | str] | None = None
    priority: Priority = Priority.NORMAL
    webhook: Callback | None = None
    metadata: Annotated[dict[str, Any], Meta(description="at most 16 KiB; returned and delivered")] | None = None
    run_at: Annotated[datetime, Meta(tz=True, description="not before; RFC 3339")] | None = None
    expires_in: Annotated[float, Meta(gt=0, le=31_536_000, description="seconds it may wait")] | None = None
    timeout: Annotated[float, Meta(ge=0.001, le=604_800, description="seconds one attempt may run")] = 600.0
    retry: RetryRule = RetryRule()
    fallback_model: Name | None = None


class RetryJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Another model, where the first is what failed."""

    model: Name | None = None


class OutputsView(msgspec.Struct, frozen=True):
    id: str
    outputs: Outputs


class AttemptView(msgspec.Struct, frozen=True, kw_only=True):
    """`status` is succeeded, failed, canceled, or returned: then it used up none of the job's attempts."""

    attempt: int
    status: str
    model: str
    worker: str
    started_at: Time
    finished_at: Time
    duration_ms: int
    error_code: str | None
    error_message: str | None


class AttemptList(msgspec.Struct, frozen=True):
    items: list[AttemptView]


class JobPage(msgspec.Struct, frozen=True):
    """Jobs without their outputs; `webhook_status` is not looked up here."""

    items: list[JobView]
    next_cursor: str | None


class ItemError(msgspec.Struct, frozen=True):
    """Why an item of a batch is no job: its number from 0, the `type` and the `errors` that it would have had alone."""

    index: int
    type: str
    detail: str
    errors: list[FieldError]


class BatchAccepted(BatchView, frozen=True, kw_only=True):
    """The batch, and the items that are no jobs of it."""

    errors: list[ItemError]


class Replay(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Either `ids`, or the newest `limit` that `filter` finds; on another model where one is given."""

    ids: Annotated[list[str], Meta(min_length=1, max_length=1000)] | None = None
    filter: DeadFilter | None = None
    model: Name | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class Replayed(msgspec.Struct, frozen=True):
    """`skipped` are no failed jobs of yours, or the model does not take their inputs."""

    replayed: list[str]
    skipped: list[str]
    remaining: bool


class EventItem(msgspec.Struct, frozen=True):
    """An event of a job: at its end `data` is the Job as its webhook has it, before what is new."""

    id: str
    type: str
    timestamp: Time
    data: Object


class EventPage(msgspec.Struct, frozen=True):
    items: list[EventItem]
    next_cursor: str | None
