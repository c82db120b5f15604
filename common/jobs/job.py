"""A job as statements return it: for its view, while it waits, and under a claim."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

import asyncpg
import msgspec

from common import ids
from common.job_states import Priority, Status, read_text
from common.locations.location import Location, parse_prefix
from common.locations.outputs import make_attempt_folder
from common.reuse.key import ReuseKey
from common.telemetry import tracing
from common.telemetry.logs import Log

ClaimKey = tuple[UUID, int]  # a job and its claim
Row = Mapping[str, Any]

log = Log("jobs")


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of `jobs` that the view needs. `probation` is in seconds."""

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
    erased_at: datetime | None = None
    scheduled_at: datetime | None = None  # a queued job waits until then
    probation: float | None = None  # the job may be what kills Triton, as of its claim or the last renewal
    parent: UUID | None = None  # the run of a step's job
    step: str | None = None
    run_state: bytes | None = None  # of a run, as JSON; None: it is no run
    finish_reason: str | None = None  # why the text of a language model ended; None: it did not say
    reused_from: UUID | None = None  # the job whose attempt made the result; None: its own
    twin: UUID | None = None  # the job whose result it waits for
    reuse_key: bytes | None = None  # common/reuse/digest.py

    @property
    def reuse(self) -> ReuseKey | None:
        """The key that it shares with jobs that ask the same."""
        return None if self.reuse_key is None else ReuseKey(self.tenant_id, self.reuse_key)

    @property
    def sharing_id(self) -> UUID | None:
        """Its id, if it may share its files with other jobs. Those of a run are of its steps, which may."""
        return self.id if self.is_run or self.reuse_key is not None else None

    @property
    def is_run(self) -> bool:
        return self.run_state is not None


class WaitingJob(Job, frozen=True, kw_only=True):
    """A job in the queue, with what its end there needs."""

    claim: int
    step_index: int | None = None


class ClaimedJob(Job, frozen=True, kw_only=True):
    """A job under a claim, with what the result of its attempt needs. Durations are in seconds."""

    started_at: datetime
    claim: int
    worker: str
    interruptions: int
    initial_delay: float
    max_delay: float
    fallback_model: str | None
    step_index: int | None = None

    @property
    def key(self) -> ClaimKey:
        return self.id, self.claim

    def seconds_queued(self) -> float:
        """Return the seconds from when the job could run to its claim, by the database's clock."""
        return max(0.0, (self.started_at - self.run_at).total_seconds())

    def time_after(self, seconds: float) -> datetime:
        """Return the database's time this long after the claim. The dispatcher's own clock decides nothing."""
        return self.started_at + timedelta(seconds=seconds)


class JobToRun(ClaimedJob, frozen=True, kw_only=True):
    """A claimed job with all that its attempt needs. `timeout` is in seconds."""

    timeout: float
    input_bytes: int
    passed: bool  # it was claimed before a larger job whose turn it was, but which did not fit
    tensors: bytes
    parameters: bytes | None
    output_location: str | None  # s3://bucket/folder/
    wants_started: bool

    @property
    def output_folder(self) -> Location | None:
        """The folder for the outputs of this attempt. None: they stay in Charonia."""
        if self.output_location is None:
            return None
        return make_attempt_folder(parse_prefix(self.output_location), self.id, self.claim)


AnyJob = TypeVar("AnyJob", bound=Job)


def read_job(kind: type[AnyJob], record: Row) -> AnyJob:
    """Return the job in a record, which may have more columns. Raises msgspec.ValidationError."""
    return msgspec.convert(record, kind, builtin_types=(UUID, datetime, bytes))


def read_jobs(kind: type[AnyJob], records: Iterable[asyncpg.Record]) -> list[tuple[AnyJob, datetime]]:
    """Return the jobs in records, each with the database's time. Leave out those that only a later release can read."""
    found = []
    for record in records:
        try:
            found.append((read_job(kind, dict(record)), record["now"]))
        except msgspec.ValidationError as error:
            shown, tenant = ids.encode(ids.Kind.JOB, record["id"]), ids.encode(ids.Kind.TENANT, record["tenant_id"])
            trace_id = tracing.trace_id(record["traceparent"])
            log.warn_once("job.unreadable", job_id=shown, tenant=tenant, trace_id=trace_id, error=str(error))
    return found


def read_shown_job(record: Row) -> Job:
    """Return a job to show to its client. A status or priority of a later release is shown as it is."""
    try:
        return read_job(Job, record)
    except msgspec.ValidationError:
        status, priority = read_text(Status, record["status"]), read_text(Priority, record["priority"])
        row = read_job(Job, {**record, "status": Status.QUEUED, "priority": Priority.NORMAL})
        return msgspec.structs.replace(row, status=status, priority=priority)
