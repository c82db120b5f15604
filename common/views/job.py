"""A job as clients and receivers see it: one shape for the API and for webhooks."""

from datetime import UTC, datetime
from typing import Annotated, Literal
from uuid import UUID

import msgspec
from msgspec import Meta

from common import ids
from common.event_types import JobEventType
from common.job_states import Failure, Priority, Status
from common.jobs.job import Job
from common.security.signed_urls import VALID, UrlSigner
from common.telemetry import tracing
from common.views.job_parts import Metrics, RunStep, Urls, WaitingFor
from common.views.outputs import Outputs, sign_files

WebhookStatus = Literal["none", "pending", "succeeded", "failed"]
OutputsOmitted = Literal["in_lists", "too_large", "erased"]
MAX_OUTPUTS = 256 * 1024  # bytes of JSON; a webhook carries a URL instead of larger outputs
_TRACE_ID = "{trace_id}"


def job_log_fields(row: Job) -> dict[str, str]:
    """Return the fields of every log line about a job."""
    return {
        "job_id": ids.encode(ids.Kind.JOB, row.id),
        "tenant": ids.encode(ids.Kind.TENANT, row.tenant_id),
        "trace_id": tracing.trace_id(row.traceparent),
        "model": row.model,
    }


Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
Object = Annotated[msgspec.Raw, Meta(extra_json_schema={"type": "object"})]


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """A job: its state, its settings and, after success, its outputs."""

    id: str
    """The id of the job."""
    status: Status
    """The state. `succeeded`, `failed`, `canceled` and `expired` are final, unless the job is retried."""
    model: str
    """The model that runs the job. It is the fallback model once the job has changed to it."""
    version: str | None
    """The version that ran, or the one asked for. Null before the success of a job that asks for none."""
    priority: Priority
    """Jobs of a higher priority run first."""
    attempt: int
    """The number of the latest attempt, from 1; 0 before the first one."""
    max_attempts: int
    """The attempts that the job may use before it fails."""
    created_at: Time
    """When the job was submitted."""
    run_at: Time
    """The earliest start of the next attempt. It is later than now while the job is scheduled or backs off."""
    started_at: Time | None
    """When the latest attempt started; null before the first one."""
    finished_at: Time | None
    """When the job ended; null until then."""
    expires_at: Time | None
    """The job expires if it has not started by then; null if it may wait forever."""
    outputs: Outputs | None
    """The outputs; null until the job has succeeded, or if `outputs_omitted` says why."""
    outputs_omitted: OutputsOmitted | msgspec.UnsetType = msgspec.UNSET
    """Why a succeeded job has null `outputs`: `in_lists`, `too_large` (over 256 KiB in a webhook) or `erased`."""
    outputs_url: str | msgspec.UnsetType = msgspec.UNSET
    """Where to fetch outputs that were left out. The URL in a webhook needs no key, for 7 days."""
    error: Failure | None
    """Why the job, or its latest attempt, failed; null without a failure."""
    queue_position: int | None
    """The estimated position of a queued job: 1 is next. Null in lists, and while the job backs off or is scheduled."""
    waiting_for: WaitingFor | None
    """Why a queued job does not run yet; null otherwise, and in the answer to a submit that does not wait."""
    webhook_status: WebhookStatus | None
    """The state of the job's webhooks, also to subscriptions. `pending`: one is being sent, or the job has its own and
    has not ended. `failed`: one was given up, or canceled with its subscription. `succeeded`: all have arrived.
    `none`: there are none.

    Null where it is not read: in lists, results of batches, events and the answer to a cancel. So it is in the answer
    to a submit that does not wait, unless the job has a webhook of its own and has not ended.
    """
    metadata: Object
    """Your `metadata`, unchanged."""
    trace_id: str
    """The id of the job's trace, as in W3C Trace Context."""
    metrics: Metrics
    """How long the parts of the job took."""
    urls: Urls
    """Where to read or cancel the job."""
    kind: Literal["pipeline"] | msgspec.UnsetType = msgspec.UNSET
    """What the job is, if it runs no model: `pipeline` for a run of a pipeline; absent for other jobs."""
    steps: dict[str, RunStep] | msgspec.UnsetType = msgspec.UNSET
    """The steps of a run by name. Absent for other jobs, and where it is not read, as `webhook_status`."""
    parent: str | msgspec.UnsetType = msgspec.UNSET
    """The run that made the job for one of its steps; absent for other jobs."""
    step: str | msgspec.UnsetType = msgspec.UNSET
    """The name of that step; absent for other jobs."""
    reused_from: str | msgspec.UnsetType = msgspec.UNSET
    """The job whose attempt made the outputs, if this job took them from it; absent for a job that ran itself."""
    request: Object | msgspec.UnsetType = msgspec.UNSET
    """The call that the job was translated from: its `endpoint`, and its `body` as it came.

    `store` is false if the call is a response that is not stored.
    Absent for a job that came as a job, once it is erased, and where it is not read, as `webhook_status`.
    """
    request_omitted: Literal["too_large"] | msgspec.UnsetType = msgspec.UNSET
    """Why `request` is absent: it has more than 256 KiB."""


class JobBody(msgspec.Struct, frozen=True):
    """The body of a job's webhook, as in Standard Webhooks."""

    type: JobEventType
    """The type of the event."""
    timestamp: Time
    """When the event happened. All attempts to deliver it have the same time."""
    sequence: int
    """Orders the events of a job: a later event has a greater number. Numbers may be missing."""
    data: JobView
    """The job, as it was at the event."""


class JobUrls(msgspec.Struct, frozen=True):
    """Writes URLs. `public` precedes each path. `signer` signs URLs that need no key.

    `traces` shows traces: Jaeger's address, or any URL with `{trace_id}`.
    """

    public: str = ""
    traces: str = ""
    signer: UrlSigner | None = None

    def job(self, job_id: str, trace_id: str) -> Urls:
        """Return the URLs of a job."""
        path = f"{self.public}/v1/jobs/{job_id}"
        return Urls(path, f"{path}/cancel", f"{path}/events", f"{path}/deliveries", self.trace(trace_id))

    def trace(self, trace_id: str) -> str | None:
        """Return the URL of a trace, if `traces` is set."""
        if not self.traces:
            return None
        template = self.traces if _TRACE_ID in self.traces else f"{self.traces.rstrip('/')}/trace/{_TRACE_ID}"
        return template.replace(_TRACE_ID, trace_id)

    def add_file_urls(
        self, outputs: bytes, at: datetime | None = None, until: datetime | None = None, job: UUID | None = None
    ) -> bytes:
        """Return outputs as JSON in which each file has a URL that needs no key.

        It is good until a time; by default for a while after `at`, or now. With `job`, its erasure ends the URL: give a
        job that may share its files.
        """
        if self.signer is None:
            return outputs
        at = at or datetime.now(UTC)
        return sign_files(outputs, self.public, self.signer, at, VALID if until is None else until - at, job)

    def outputs(self, job_id: UUID, at: datetime) -> str:
        """Return a URL of a job's outputs that needs no key, for a limited time after `at`."""
        path = f"{self.public}/v1/jobs/{ids.encode(ids.Kind.JOB, job_id)}"
        return f"{path}/outputs?{self.signer.sign(job_id, at)}" if self.signer else path


def format_time(value: datetime) -> str:
    """Return the time in RFC 3339, in UTC with milliseconds."""
    return value.astimezone(UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def format_optional_time(value: datetime | None) -> str | None:
    """Return the time like `format_time`, or None."""
    return None if value is None else format_time(value)


def duration_ms(start: datetime | None, end: datetime | None) -> int | None:
    """Return whole milliseconds, or None if a time is missing."""
    return None if start is None or end is None else max(0, round((end - start).total_seconds() * 1000))


def measure_queue(row: Job) -> int | None:
    """Return how long the job waited for its latest attempt, in milliseconds, or None if the row does not have it.

    After a failed attempt, `run_at` is that of the next one, also once the job is canceled in the queue.
    """
    if row.status in (Status.QUEUED, Status.CANCELED) and row.started_at is not None and row.run_at > row.started_at:
        return None
    return duration_ms(max(row.created_at, row.run_at), row.started_at)


def view_job(
    row: Job,
    links: JobUrls,
    *,
    webhook_status: WebhookStatus | None = None,
    outputs: bytes | None = None,
    queue_position: int | None = None,
    waiting_for: WaitingFor | None = None,
    steps: dict[str, RunStep] | msgspec.UnsetType = msgspec.UNSET,
    request: bytes | None = None,
    has_large_request: bool = False,
) -> JobView:
    """Return the view of a job.

    `outputs` and `request` are JSON; those of an erased job are gone. `webhook_status` may be unread.
    """
    shown = ids.encode(ids.Kind.JOB, row.id)
    trace_id = tracing.trace_id(row.traceparent)
    error = None
    if row.error_code is not None:
        error = Failure(row.error_code, row.error_message or "", bool(row.error_retryable))
    inference = None if row.inference_ms is None else round(row.inference_ms)
    return JobView(
        id=shown,
        status=row.status,
        model=row.model,
        version=row.version,
        priority=row.priority,
        attempt=row.attempt,
        max_attempts=row.max_attempts,
        created_at=format_time(row.created_at),
        run_at=format_time(row.run_at),
        started_at=format_optional_time(row.started_at),
        finished_at=format_optional_time(row.finished_at),
        expires_at=format_optional_time(row.expires_at),
        outputs=None if outputs is None else msgspec.Raw(outputs),
        outputs_omitted="erased" if has_erased_outputs(row) else msgspec.UNSET,
        error=error,
        queue_position=queue_position,
        waiting_for=waiting_for,
        webhook_status=webhook_status,
        metadata=msgspec.Raw(row.metadata or b"{}"),
        trace_id=trace_id,
        metrics=Metrics(measure_queue(row), inference, duration_ms(row.created_at, row.finished_at)),
        urls=links.job(shown, trace_id),
        kind="pipeline" if row.is_run else msgspec.UNSET,
        steps=steps,
        parent=msgspec.UNSET if row.parent is None else ids.encode(ids.Kind.JOB, row.parent),
        step=msgspec.UNSET if row.step is None else row.step,
        reused_from=msgspec.UNSET if row.reused_from is None else ids.encode(ids.Kind.JOB, row.reused_from),
        request=msgspec.UNSET if request is None else msgspec.Raw(request),
        request_omitted="too_large" if has_large_request and row.erased_at is None else msgspec.UNSET,
    )


def list_job(row: Job, links: JobUrls, waiting_for: WaitingFor | None = None) -> JobView:
    """Return the view of a job in a list, which leaves outputs out and says so."""
    view = view_job(row, links, waiting_for=waiting_for)
    if row.status is not Status.SUCCEEDED or has_erased_outputs(row):
        return view
    return msgspec.structs.replace(view, outputs_omitted="in_lists", outputs_url=f"{view.urls.self}/outputs")


def has_erased_outputs(row: Job) -> bool:
    return row.status is Status.SUCCEEDED and row.erased_at is not None


def render_event(
    row: Job,
    links: JobUrls,
    event_type: str,
    at: datetime,
    outputs: bytes | None,
    *,
    sequence: int,
    has_large_outputs: bool = False,
) -> bytes:
    """Return the body of a webhook. A URL replaces outputs above MAX_OUTPUTS, which need not be read."""
    outputs = None if outputs is None else links.add_file_urls(outputs, at, job=row.sharing_id)
    too_large = has_large_outputs or (outputs is not None and len(outputs) > MAX_OUTPUTS)
    view = view_job(row, links, outputs=None if too_large else outputs)
    if too_large:
        view = msgspec.structs.replace(view, outputs_omitted="too_large", outputs_url=links.outputs(row.id, at))
    return msgspec.json.encode(JobBody(event_type, format_time(at), sequence, view))
