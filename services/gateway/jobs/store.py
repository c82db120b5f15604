"""Finds and lists jobs."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from common.job_states import Priority, Status, read_text
from common.jobs.job import Job, read_shown_job
from common.jobs.twins import is_awaited
from common.postgres import sql
from common.postgres.database import Database
from common.views.job import WebhookStatus
from services.gateway.http.limits.response_limits import LARGE
from services.gateway.http.pagination import Cursor, ListFilter
from services.gateway.http.validation.timestamps import EARLIEST, LATEST, bound_optional
from services.gateway.jobs.schemas import DeadFilter

QUERIES = sql.load("services.gateway.jobs")
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


class JobFilter(ListFilter, frozen=True, kw_only=True, tag="jobs"):
    """Selects jobs. None matches everything."""

    status: Status | None = None
    model: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    batch_id: UUID | None = None
    parent: UUID | None = None  # a run, whose steps' jobs are listed
    step: str | None = None  # only with a parent


class StepPlace(NamedTuple):
    """A place in the list of the jobs of a run's steps: after that of an element."""

    step: str = ""
    element: int = -1


class ElementJob(NamedTuple):
    """The job of an element of a step."""

    place: StepPlace
    row: Job


class FoundJob(NamedTuple):
    """A job. Large outputs may not be read; `outputs_size` says that there are some.

    `request` is what the job was translated from, as JSON. It may not be read either; `request_size` says so.
    """

    row: Job
    outputs: bytes | None
    webhook_status: WebhookStatus
    queue_position: int | None
    erased: bool
    outputs_size: int | None = None
    request: bytes | None = None
    request_size: int | None = None


class FoundInputs(NamedTuple):
    """The inputs of a job, and their bytes. Those over LARGE bytes are not read."""

    job_id: UUID
    tenant_id: UUID
    size: int
    erased: bool
    tensors: bytes | None


class OutputsSize(NamedTuple):
    """The tenant of a job, and the bytes of its outputs. `is_shared`: other jobs may share their files."""

    tenant_id: UUID
    size: int
    is_shared: bool


class JobStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_job(self, job_id: UUID, tenant_id: UUID, largest: int = LARGE) -> FoundJob | None:
        """Return the tenant's job with its queue position, and with its outputs and its request.

        Each of them is left out if it has more than `largest` bytes.
        """
        record = await self._database.fetch_one(QUERIES["find_job"], job_id, tenant_id, largest)
        if record is None:
            return None
        row = read_shown_job(dict(record))
        is_next = row.status is Status.QUEUED and record["scheduled_at"] is None  # else it waits for its time
        position = await self._find_position(row) if is_next else None
        return FoundJob(
            row,
            record["outputs"],
            record["webhook_status"],
            position,
            erased=record["erased_at"] is not None,
            outputs_size=record["outputs_size"],
            request=record["request"],
            request_size=record["request_size"],
        )

    async def has_job(self, job_id: UUID, tenant_id: UUID) -> bool:
        """Return whether the tenant has this job."""
        return await self._database.fetch_one(QUERIES["has_job"], job_id, tenant_id) is not None

    async def _find_position(self, job: Job) -> int | None:
        """Return the position of a job that may start in its queue, from 1 to MAX_POSITION + 1, if it is known."""
        if job.priority not in PRIORITIES:  # it is one of a later release
            return None
        above = PRIORITIES[: PRIORITIES.index(job.priority)]
        values = (job.model, job.priority, job.tenant_id, job.id, above, MAX_POSITION, MAX_TENANTS)
        record = await self._database.fetch_one(QUERIES["find_position"], *values)
        return record["position"] if record else None

    async def is_awaited(self, job: Job) -> bool:
        """Return whether other jobs wait for the result of a job."""
        return job.reuse is not None and await is_awaited(self._database, job.reuse, job.id)

    async def measure_outputs(self, job_id: UUID) -> OutputsSize | None:
        """Return the size of a succeeded job's outputs. The caller must have checked access."""
        record = await self._database.fetch_one(QUERIES["measure_outputs"], job_id)
        return OutputsSize(*record.values()) if record else None

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
        return read_text(Status, record["status"]) if record else None

    async def list_jobs(self, tenant_id: UUID, filters: JobFilter, after: Cursor | None, limit: int) -> list[Job]:
        """Return the jobs after a place, newest first, without outputs and webhook status."""
        states = [filters.status] if filters.status else ALL_STATUSES
        begin = Cursor(bound_optional(filters.created_before) or LATEST, LEAST_ID)  # excludes jobs of that very time
        begin = begin if after is None else min(begin, after)
        values = (tenant_id, states, *begin, bound_optional(filters.created_after) or EARLIEST, limit)
        if filters.batch_id is not None:
            found = await self._database.fetch(QUERIES["list_jobs_of_batch"], *values, filters.batch_id, filters.model)
        elif filters.model is None:
            found = await self._database.fetch(QUERIES["list_jobs"], *values)
        else:
            found = await self._database.fetch(QUERIES["list_jobs_of_model"], *values, filters.model)
        return [read_shown_job(dict(record)) for record in found]

    async def list_step_jobs(
        self, tenant_id: UUID, filters: JobFilter, after: StepPlace, limit: int
    ) -> list[ElementJob]:
        """Return the jobs of a run's steps after a place, without outputs and webhook status."""
        found = await self._database.fetch(
            QUERIES["list_jobs_of_run"],
            tenant_id,
            [filters.status] if filters.status else ALL_STATUSES,
            bound_optional(filters.created_after) or EARLIEST,
            bound_optional(filters.created_before) or LATEST,
            limit,
            filters.model,
            filters.parent,
            after.step,
            after.element,
            filters.step,
        )
        return [ElementJob(StepPlace(each["step"], each["step_index"]), read_shown_job(dict(each))) for each in found]

    async def list_dead_letters(
        self, tenant_id: UUID, before: UUID | None, filters: DeadFilter, limit: int
    ) -> list[Job]:
        """Return the newest failed jobs with an id below `before`."""
        times = bound_optional(filters.created_after), bound_optional(filters.created_before)
        values = (tenant_id, before, filters.model, filters.error, *times, limit)
        found = await self._database.fetch(QUERIES["list_dead_letters"], *values)
        return [read_shown_job(dict(record)) for record in found]

    async def list_attempts(self, job_id: UUID, tenant_id: UUID) -> list[AttemptRow]:
        """Return the ended attempts of the tenant's job, at most the latest MAX_ATTEMPTS entries, oldest first."""
        found = await self._database.fetch(QUERIES["list_attempts"], job_id, tenant_id, MAX_ATTEMPTS)
        return [AttemptRow(*record.values()) for record in reversed(found)]
