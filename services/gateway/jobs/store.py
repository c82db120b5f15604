"""Adds, finds and lists jobs."""

from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple
from uuid import UUID

import msgspec

from common.jobs import Priority, Status
from common.postgres import sql
from common.postgres.database import Connection, Database, to_columns
from common.rabbitmq.wake_ups import WakeUp
from common.views.job import JobRow, WebhookStatus, read_job
from services.gateway.http.limits.response_limits import LARGE
from services.gateway.http.pagination import Place
from services.gateway.http.validation.timestamps import EARLIEST, LATEST, bound_optional
from services.gateway.jobs.schemas import DeadFilter

QUERIES = sql.load("services.gateway.jobs") | sql.load("services.gateway.jobs", "listing.sql")
PRIORITIES = tuple(Priority)  # highest first
MAX_ATTEMPTS = 1000  # entries in a list of attempts
MAX_POSITION = 10_000  # highest queue position that is counted
MAX_TENANTS = 100  # whose jobs are counted for a position
ALL_STATUSES = tuple(Status)
LEAST_ID = UUID(int=0)


class AttemptRow(msgspec.Struct, frozen=True):
    attempt: int
    count: int
    model: str
    worker: str
    started_at: datetime
    finished_at: datetime
    status: str
    error_code: str | None
    error_message: str | None


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Selects jobs. None matches everything."""

    status: Status | None = None
    model: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    batch_id: UUID | None = None


class JobFile(NamedTuple):
    """A file that a job reads, and the pointer to the field that names it."""

    id: UUID
    pointer: str


class LargeInput(NamedTuple):
    """An inline input that goes to the object store as a file: its data, or its SHA-256 once it is there."""

    id: UUID
    data: bytes
    sha256: bytes = b""


class NewJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job to add. Durations are in seconds. `wake_up` announces it to the dispatchers."""

    id: UUID
    tenant_id: UUID
    model: str
    version: str | None
    priority: Priority
    max_attempts: int
    run_at: datetime | None
    expires_in: float | None
    timeout: float
    initial_delay: float
    max_delay: float
    fallback_model: str | None
    traceparent: str
    tensors: bytes
    parameters: bytes | None
    metadata: bytes | None
    callback_url: str | None
    callback_events: Sequence[str] | None
    wake_up: WakeUp
    idempotency_key: str | None = None
    fingerprint: bytes | None = None  # SHA-256 of the request's body, if there is an idempotency key
    batch_id: UUID | None = None
    retain: float | None = None  # seconds it is kept after its end
    files: Sequence[JobFile] = ()
    large_inputs: Sequence[LargeInput] = ()
    file_bytes: int = 0  # of tensors that are in files, or will be
    output_location: str | None = None  # s3://bucket/folder/

    @property
    def stored_bytes(self) -> int:
        """Return the bytes of the inputs in the database."""
        return len(self.tensors) + len(self.parameters or b"") + len(self.metadata or b"")

    @property
    def held_bytes(self) -> int:
        """Return the bytes of the inputs in memory."""
        return self.stored_bytes + sum(len(large.data) for large in self.large_inputs)

    @property
    def input_bytes(self) -> int:
        """Return the bytes that count for the tenant's limit while the job waits."""
        return self.stored_bytes + self.file_bytes


class JobTimes(NamedTuple):
    """The times of an added job, by the database's clock."""

    created_at: datetime
    run_at: datetime
    expires_at: datetime | None


class FoundJob(NamedTuple):
    """A job. Outputs over LARGE bytes are not read; only `outputs_size` says that there are some."""

    row: JobRow
    outputs: bytes | None
    webhook_status: WebhookStatus
    queue_position: int | None
    erased: bool
    outputs_size: int | None = None


class FoundInputs(NamedTuple):
    """The inputs of a job, and their bytes. Those over LARGE bytes are not read."""

    job_id: UUID
    tenant_id: UUID
    size: int
    erased: bool
    tensors: bytes | None


class OutputsSize(NamedTuple):
    """The tenant of a job, and the bytes of its outputs."""

    tenant_id: UUID
    size: int


async def add_jobs(connection: Connection, jobs: Sequence[NewJob]) -> dict[UUID, JobTimes]:
    """Add jobs with one statement. See JobStore.submit_jobs."""
    newest_first = sorted(jobs, key=attrgetter("id"), reverse=True)
    first = {(job.tenant_id, job.idempotency_key or job.id): job for job in newest_first}  # of those with one key
    rows = [
        (
            *(job.id, job.tenant_id, job.model, job.version, job.priority, job.max_attempts, job.run_at),
            *(job.expires_in, job.timeout, job.initial_delay, job.max_delay),
            *(job.fallback_model, job.traceparent),
            *(job.tensors, job.parameters, job.metadata, job.callback_url),
            None if job.callback_events is None else ",".join(job.callback_events),
            *(job.idempotency_key, job.fingerprint, job.batch_id, job.retain, job.input_bytes),
            job.output_location,
        )
        for job in reversed(first.values())
    ]
    found = await connection.fetch(QUERIES["submit_jobs"], *to_columns(rows, 24))
    return {record["id"]: JobTimes(record["created_at"], record["run_at"], record["expires_at"]) for record in found}


class JobStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def submit_jobs(self, jobs: Sequence[NewJob]) -> dict[UUID, JobTimes]:
        """Add all jobs or none, but skip those whose idempotency key is in use. Return the times of added jobs."""
        async with self._database.acquire() as connection:
            return await add_jobs(connection, jobs)

    async def find_job(self, job_id: UUID, tenant_id: UUID) -> FoundJob | None:
        """Return the tenant's job with its queue position, and with its outputs unless they are large."""
        record = await self._database.fetch_one(QUERIES["find_job"], job_id, tenant_id, LARGE)
        if record is None:
            return None
        row = read_job(dict(record))
        is_next = row.status is Status.QUEUED and record["scheduled_at"] is None  # else it waits for its time
        position = await self._find_position(row) if is_next else None
        return FoundJob(
            *(row, record["outputs"], record["webhook_status"], position),
            erased=record["erased_at"] is not None,
            outputs_size=record["outputs_size"],
        )

    async def has_job(self, job_id: UUID, tenant_id: UUID) -> bool:
        """Return whether the tenant has this job."""
        return await self._database.fetch_one(QUERIES["has_job"], job_id, tenant_id) is not None

    async def _find_position(self, job: JobRow) -> int | None:
        """Return the position of a job that may start in its queue, from 1 to MAX_POSITION + 1."""
        above = PRIORITIES[: PRIORITIES.index(job.priority)]
        values = (job.model, job.priority, job.tenant_id, job.id, above, MAX_POSITION, MAX_TENANTS)
        record = await self._database.fetch_one(QUERIES["find_position"], *values)
        return record["position"] if record else None

    async def measure_outputs(self, job_id: UUID) -> OutputsSize | None:
        """Return the size of a succeeded job's outputs. The caller must have checked access."""
        record = await self._database.fetch_one(QUERIES["measure_outputs"], job_id)
        return OutputsSize(record["tenant_id"], record["size"]) if record else None

    async def read_outputs(self, job_id: UUID) -> bytes | None:
        """Return the outputs of a succeeded job as a JSON list. The caller must have checked access and room."""
        record = await self._database.fetch_one(QUERIES["read_outputs"], job_id)
        return record["outputs"] if record else None

    async def find_inputs(self, job_id: UUID, tenant_id: UUID) -> FoundInputs | None:
        """Return the inputs of the tenant's job."""
        record = await self._database.fetch_one(QUERIES["find_inputs"], job_id, tenant_id, LARGE)
        return FoundInputs(job_id, tenant_id, *record.values()) if record else None

    async def read_inputs(self, job_id: UUID) -> bytes:
        """Return the inputs of a job, or nothing once they are erased. The caller must have checked access and room."""
        record = await self._database.fetch_one(QUERIES["read_inputs"], job_id)
        return record["tensors"] if record else b""

    async def find_status(self, job_id: UUID) -> Status | None:
        """Return the status of a job. The caller must have checked access."""
        record = await self._database.fetch_one(QUERIES["find_status"], job_id)
        return Status(record["status"]) if record else None

    async def list_jobs(self, tenant_id: UUID, filters: JobFilter, after: Place | None, limit: int) -> list[JobRow]:
        """Return the jobs after a place, newest first, without outputs and webhook status."""
        states = [filters.status] if filters.status else ALL_STATUSES
        begin = Place(bound_optional(filters.created_before) or LATEST, LEAST_ID)  # excludes jobs of that very time
        begin = begin if after is None else min(begin, after)
        values = (tenant_id, states, *begin, bound_optional(filters.created_after) or EARLIEST, limit)
        if filters.batch_id is not None:
            found = await self._database.fetch(QUERIES["list_jobs_of_batch"], *values, filters.batch_id, filters.model)
        elif filters.model is None:
            found = await self._database.fetch(QUERIES["list_jobs"], *values)
        else:
            found = await self._database.fetch(QUERIES["list_jobs_of_model"], *values, filters.model)
        return [read_job(dict(record)) for record in found]

    async def list_dead_letters(
        self, tenant_id: UUID, before: UUID | None, filters: DeadFilter, limit: int
    ) -> list[JobRow]:
        """Return the newest failed jobs with an id below `before`."""
        times = bound_optional(filters.created_after), bound_optional(filters.created_before)
        values = (tenant_id, before, filters.model, filters.error, *times, limit)
        found = await self._database.fetch(QUERIES["list_dead_letters"], *values)
        return [read_job(dict(record)) for record in found]

    async def list_attempts(self, job_id: UUID, tenant_id: UUID) -> list[AttemptRow]:
        """Return the ended attempts of the tenant's job, at most the latest MAX_ATTEMPTS entries, oldest first."""
        found = await self._database.fetch(QUERIES["list_attempts"], job_id, tenant_id, MAX_ATTEMPTS)
        return [AttemptRow(*record.values()) for record in reversed(found)]
