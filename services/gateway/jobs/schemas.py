"""Request and response bodies of the job calls, besides the Job itself.

Unknown fields are refused, so a typo never passes.
"""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from common.jobs import Priority
from common.views.job import JobView, Outputs, Time
from services.gateway.models.schemas import InputTensor

EventPattern = Annotated[
    str, Meta(max_length=100, description="an event type; `*` matches one word, `job.*` every job event")
]
Url = Annotated[str, Meta(min_length=1, max_length=2048, description="https, to a public address")]
# PostgreSQL text cannot contain NUL.
Name = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[^\x00]*$")]


class DeadFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects failed jobs. A missing field matches everything."""

    model: Name | None = None
    error: Name | None = None
    created_after: Annotated[datetime, Meta(tz=True)] | None = None
    created_before: Annotated[datetime, Meta(tz=True)] | None = None


class Callback(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where to send the events of this job. `events` defaults to the terminal events."""

    url: Url
    events: Annotated[list[EventPattern], Meta(min_length=1, max_length=10)] = msgspec.field(
        default_factory=lambda: ["job.succeeded", "job.failed", "job.canceled", "job.expired"]
    )


class RetryRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Exponential backoff with full jitter. Delays are in seconds."""

    max_attempts: Annotated[int, Meta(ge=1, le=100)] = 5
    initial_delay: Annotated[float, Meta(ge=0, le=86_400)] = 1.0
    max_delay: (
        Annotated[float, Meta(ge=0, le=604_800, description="default: 300, or initial_delay if larger")] | None
    ) = None

    @property
    def effective_max_delay(self) -> float:
        return max(300.0, self.initial_delay) if self.max_delay is None else self.max_delay


class SubmitJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    model: Name
    version: Name | None = None
    inputs: Annotated[
        dict[str, Any] | list[InputTensor],
        Meta(description='by name: nested lists or {"base64"}; or a list of tensors as in the Open Inference Protocol'),
    ]
    parameters: dict[str, bool | int | float | str] | None = None
    priority: Priority = Priority.NORMAL
    webhook: Callback | None = None
    metadata: Annotated[dict[str, Any], Meta(description="at most 16 KiB; returned and delivered")] | None = None
    run_at: Annotated[datetime, Meta(tz=True, description="earliest start; RFC 3339")] | None = None
    expires_in: (
        Annotated[float, Meta(gt=0, le=31_536_000, description="seconds it may wait before it starts")] | None
    ) = None
    timeout: Annotated[float, Meta(ge=0.001, le=604_800, description="seconds one attempt may run")] = 600.0
    retry: RetryRule = RetryRule()
    fallback_model: Name | None = None
    retain: (
        Annotated[float, Meta(ge=1, le=31_536_000, description="seconds it is kept after its end, at most")] | None
    ) = None


class RetryJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Optionally another model for the retry."""

    target_model: Name | None = None


class OutputsView(msgspec.Struct, frozen=True):
    id: str
    outputs: Outputs


class AttemptView(msgspec.Struct, frozen=True, kw_only=True):
    """`status` is succeeded, failed, canceled or returned. A returned attempt does not count."""

    attempt: int
    count: int
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
    """Jobs without their outputs: `outputs_url` has them. `webhook_status` is always `none` here."""

    items: list[JobView]
    next_cursor: str | None


class Replay(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects the jobs: either `ids`, or the newest `limit` jobs that match `filter`. One of the two is required."""

    ids: Annotated[list[str], Meta(min_length=1, max_length=1000)] | None = None
    filter: DeadFilter | None = None
    target_model: Name | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] | None = None


class Replayed(msgspec.Struct, frozen=True):
    """`skipped` jobs are not your failed jobs, or the model does not accept their inputs."""

    replayed: list[str]
    skipped: list[str]
    remaining: bool
