"""The Job as clients and receivers see it: one shape for the API and for webhooks."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Literal
from uuid import UUID

import msgspec
from msgspec import Meta

from common import ids, tracing
from common.grants import Grants
from common.jobs import Failure, Priority, Status

WebhookStatus = Literal["none", "pending", "succeeded", "failed"]
# Outputs above this size (bytes of JSON) are left out of a webhook's body.
THIN_BODY = 256 * 1024
TRACE_ID = "{trace_id}"


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """What the view needs of a row of `jobs` and its inputs."""

    id: UUID
    tenant_id: UUID
    model: str
    version: str | None
    priority: Priority
    status: Status
    attempt: int
    max_attempts: int
    created_at: datetime
    run_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    expires_at: datetime | None
    error_code: str | None
    error_message: str | None
    error_retryable: bool | None
    inference_ms: float | None
    traceparent: str
    metadata: bytes | None


def identify(row: JobRow) -> dict[str, str]:
    """What every log line about a job says of it."""
    return {
        "job_id": ids.show(ids.Kind.JOB, row.id),
        "tenant": ids.show(ids.Kind.TENANT, row.tenant_id),
        "trace_id": tracing.trace_id(row.traceparent),
        "model": row.model,
    }


Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]


# They are passed on as they were written down.
Outputs = Annotated[
    msgspec.Raw, Meta(extra_json_schema={"type": "array", "items": {"$ref": "#/components/schemas/Output"}})
]
Object = Annotated[msgspec.Raw, Meta(extra_json_schema={"type": "object"})]


class Metrics(msgspec.Struct, frozen=True):
    """Whole milliseconds; null until known."""

    queue_ms: int | None
    inference_ms: int | None
    total_ms: int | None


class Urls(msgspec.Struct, frozen=True):
    self: str
    cancel: str
    events: str
    deliveries: str
    trace: str | None


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    status: Status
    model: str
    version: str | None
    priority: Priority
    attempt: int
    max_attempts: int
    created_at: Time
    run_at: Time
    started_at: Time | None
    finished_at: Time | None
    expires_at: Time | None
    outputs: Outputs | None
    outputs_url: str | msgspec.UnsetType = msgspec.UNSET
    error: Failure | None
    queue_position: int | None
    webhook_status: WebhookStatus
    metadata: Object
    trace_id: str
    metrics: Metrics
    urls: Urls


class EventBody(msgspec.Struct, frozen=True):
    """A webhook's body, as Standard Webhooks asks."""

    type: str
    timestamp: str
    data: JobView


class Links(msgspec.Struct, frozen=True):
    """How to write URLs: `public` goes before each path, `traces` is where traces are looked at (Jaeger's address, or
    any URL with `{trace_id}`), `grants` signs those that need no key."""

    public: str = ""
    traces: str = ""
    grants: Grants | None = None

    def job(self, job_id: str, trace_id: str) -> Urls:
        path = f"{self.public}/v1/jobs/{job_id}"
        return Urls(path, f"{path}/cancel", f"{path}/events", f"{path}/deliveries", self.trace(trace_id))

    def trace(self, trace_id: str) -> str | None:
        if not self.traces:
            return None
        template = self.traces if TRACE_ID in self.traces else f"{self.traces.rstrip('/')}/trace/{TRACE_ID}"
        return template.replace(TRACE_ID, trace_id)

    def outputs(self, job_id: UUID, at: datetime) -> str:
        """Where a job's outputs are for a while after `at`, for whoever has the URL."""
        path = f"{self.public}/v1/jobs/{ids.show(ids.Kind.JOB, job_id)}"
        return f"{path}/outputs?{self.grants.sign(job_id, at)}" if self.grants else path


def show_time(value: datetime) -> str:
    """RFC 3339 in UTC with milliseconds."""
    return value.astimezone(UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def show_optional(value: datetime | None) -> str | None:
    return None if value is None else show_time(value)


def measure(start: datetime | None, end: datetime | None) -> int | None:
    return None if start is None or end is None else max(0, round((end - start).total_seconds() * 1000))


def view_job(
    row: JobRow,
    links: Links,
    *,
    webhook_status: WebhookStatus,
    outputs: bytes | None = None,
    queue_position: int | None = None,
) -> JobView:
    shown = ids.show(ids.Kind.JOB, row.id)
    trace_id = tracing.trace_id(row.traceparent)
    error = None
    if row.error_code is not None:
        error = Failure(row.error_code, row.error_message or "", bool(row.error_retryable))
    inference = None if row.inference_ms is None else round(row.inference_ms)
    queued = measure(max(row.created_at, row.run_at), row.started_at)
    return JobView(
        id=shown,
        status=row.status,
        model=row.model,
        version=row.version,
        priority=row.priority,
        attempt=row.attempt,
        max_attempts=row.max_attempts,
        created_at=show_time(row.created_at),
        run_at=show_time(row.run_at),
        started_at=show_optional(row.started_at),
        finished_at=show_optional(row.finished_at),
        expires_at=show_optional(row.expires_at),
        outputs=None if outputs is None else msgspec.Raw(outputs),
        error=error,
        queue_position=queue_position,
        webhook_status=webhook_status,
        metadata=msgspec.Raw(row.metadata or b"{}"),
        trace_id=trace_id,
        metrics=Metrics(queued, inference, measure(row.created_at, row.finished_at)),
        urls=links.job(shown, trace_id),
    )


def write_event(row: JobRow, links: Links, event_type: str, at: datetime, outputs: bytes | None) -> bytes:
    """The body that a webhook carries; outputs over THIN_BODY are replaced by the URL that has them."""
    thin = outputs is not None and len(outputs) > THIN_BODY
    view = view_job(row, links, webhook_status="pending", outputs=None if thin else outputs)
    if thin:
        view = msgspec.structs.replace(view, outputs_url=links.outputs(row.id, at))
    return msgspec.json.encode(EventBody(event_type, show_time(at), view))


def read_job(record: Mapping[str, object]) -> JobRow:
    """The row in a record that has the columns of `jobs` and `metadata`, others ignored."""
    return msgspec.convert(record, JobRow, builtin_types=(UUID, datetime, bytes))
