"""Submitting, claiming and ending jobs as the services do, and reading them from the database."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from common import ids, tensors
from common.event_types import number_event
from common.job_states import Failure, Priority, Status
from common.jobs import promote
from common.jobs.claim import Claim, ClaimBatch, Search, claim_jobs, find_waiting
from common.jobs.end import JobEnd
from common.jobs.job import ClaimedJob, JobToRun
from common.jobs.new_event import NewEvent
from common.jobs.new_job import NewJob
from common.jobs.requeue import Requeue
from common.jobs.submit import submit_jobs
from common.postgres.database import Database
from common.postgres.statements import Executor
from common.rabbitmq.messages import QueuedJob
from common.rabbitmq.wake_ups import WakeUp, job_wake_up
from common.tensors import Datatype, Tensor
from services.dispatcher.failures.retry_policy import MAX_INTERRUPTIONS, PROBATION_SECONDS
from services.dispatcher.models.tenant_load import NIL
from services.gateway.auth.store import KeyStore

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
PACKED = tensors.pack([Tensor("x", Datatype.FP32, [1, 1], bytes(4))])
TRANSIENT = Failure("inference_failed", "try again", True)
LEASE = 60.0
QUEUE: dict[str, Any] = {"model": "echo", "priority": Priority.NORMAL}
FIRST_TURN = {"last_tenant": NIL, "running": dict[UUID, int]()}


async def add_tenant(database: Database, name: str) -> UUID:
    tenant = ids.new()
    await KeyStore(database).add_tenant(tenant, name, b"sealed", actor="test")
    return tenant


def new_job(tenant: UUID, **changes: Any) -> NewJob:
    job_id = ids.new()
    values: dict[str, Any] = {
        "id": job_id,
        "tenant_id": tenant,
        "model": "echo",
        "version": None,
        "priority": Priority.NORMAL,
        "max_attempts": 3,
        "run_at": None,
        "expires_in": None,
        "timeout": 10.0,
        "initial_delay": 1.0,
        "max_delay": 10.0,
        "fallback_model": None,
        "traceparent": TRACEPARENT,
        "tensors": PACKED,
        "parameters": None,
        "metadata": None,
        "callback_url": None,
        "callback_events": None,
    } | changes
    wake_up = job_wake_up(QueuedJob(tenant, values["id"]), values["priority"], values["model"], TRACEPARENT)
    return NewJob(**{"wake_up": wake_up} | values)


async def submit(database: Database, tenant: UUID, **changes: Any) -> UUID:
    job = new_job(tenant, **changes)
    await submit_jobs(database, [job])
    return job.id


async def claim_next(executor: Executor, count: int = 1, **changes: Any) -> ClaimBatch:
    """Claim the jobs whose turn it is, as a dispatcher does that knows none yet."""
    queue: dict[str, Any] = {name: changes.pop(name, value) for name, value in QUEUE.items()}
    turns: dict[str, Any] = {name: changes.pop(name, value) for name, value in FIRST_TURN.items()}
    found = await find_waiting(executor, Search(count=2 * count, **queue, **turns))
    assert not found.jobs or found.seconds
    values: dict[str, Any] = {"worker": "w", "lease": LEASE} | changes
    claim = Claim(count=count, **queue, **values)
    return await claim_jobs(executor, claim, [job.id for job in found.jobs])


async def take(executor: Executor, count: int = 1, **changes: Any) -> list[JobToRun]:
    """Return the jobs whose turn it is, claimed."""
    return [*(await claim_next(executor, count, **changes)).jobs]


ASIDE = """
UPDATE jobs SET scheduled_at = 'infinity'
WHERE status = 'queued' AND scheduled_at IS NULL AND id <> $1
RETURNING id
"""
BACK = "UPDATE jobs SET scheduled_at = NULL WHERE id = ANY($1::uuid[])"


async def claim(database: Database, job_id: UUID, worker: str = "w", lease: float = LEASE) -> JobToRun:
    """Claim this job, as if it were the only claimable one."""
    aside = await database.fetch(ASIDE, job_id)
    await database.fetch("UPDATE jobs SET scheduled_at = NULL WHERE id = $1", job_id)
    wanted = await database.fetch("SELECT model, priority FROM jobs WHERE id = $1", job_id)
    (job,) = await take(database, worker=worker, lease=lease, **dict(wanted[0]))
    await database.fetch(BACK, [record["id"] for record in aside])
    return job


def new_end(job: ClaimedJob, status: Status = Status.SUCCEEDED, **changes: Any) -> JobEnd:
    kind = f"job.{status}"
    event_id = ids.new()
    values: dict[str, Any] = {
        "id": job.id,
        "claim": job.claim,
        "was": "running",
        "model": job.model,
        "status": status,
        "finished_at": job.started_at + timedelta(seconds=1),
        "event": NewEvent(event_id, kind, number_event(kind, job.claim), b"{}", TRACEPARENT),
        "failure": None if status is Status.SUCCEEDED else TRANSIENT,
        "outputs": b"[]" if status is Status.SUCCEEDED else None,
    }
    return JobEnd(**values | changes)


def new_requeue(job: ClaimedJob, **changes: Any) -> Requeue:
    values: dict[str, Any] = {"id": job.id, "claim": job.claim, "failure": TRANSIENT}
    return Requeue(**values | changes)


class JobState(NamedTuple):
    status: Status
    attempt: int
    claim: int
    max_attempts: int
    interruptions: int
    model: str
    run_at: datetime
    scheduled_at: datetime | None
    lease_until: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    expires_at: datetime | None
    worker: str | None
    error_code: str | None
    fallback_model: str | None
    now: datetime


FIELDS = ", ".join(JobState._fields[:-1])
STATES = f"SELECT id, {FIELDS}, now() AS now FROM jobs WHERE id = ANY($1)"  # noqa: S608 -- field names


async def look(database: Database, job_id: UUID) -> JobState:
    return (await look_at_all(database, [job_id]))[job_id]


async def look_at_all(database: Database, jobs: Sequence[UUID]) -> dict[UUID, JobState]:
    found = {}
    for job_id, status, *values in await database.fetch(STATES, jobs):
        found[job_id] = JobState(Status(status), *values)
    return found


class Traces(NamedTuple):
    """What ends leave behind: the types of their events, the outputs."""

    events: list[str]
    outputs: list[bytes]


async def trace(database: Database, job_id: UUID) -> Traces:
    events = await database.fetch("SELECT type FROM events WHERE job_id = $1 ORDER BY type", job_id)
    outputs = await database.fetch("SELECT outputs FROM jobs WHERE id = $1 AND outputs IS NOT NULL", job_id)
    return Traces(*([record[0] for record in found] for found in (events, outputs)))


async def lapse(database: Database, job_id: UUID) -> None:
    """Let the job's lease lapse."""
    await database.fetch("UPDATE jobs SET lease_until = now() - interval '1 second' WHERE id = $1", job_id)


MAKE_CLAIMABLE = "UPDATE jobs SET run_at = least(run_at, now()), scheduled_at = NULL WHERE status = 'queued'"


async def make_claimable(database: Database) -> None:
    """Make all queued jobs claimable, scheduled ones too."""
    await database.fetch(MAKE_CLAIMABLE)


async def make_due(database: Database, job_id: UUID) -> None:
    """Make a queued job due: a sweeper promotes it next."""
    await database.fetch(
        "UPDATE jobs SET run_at = now(), scheduled_at = now() WHERE id = $1 AND status = 'queued'", job_id
    )


async def promote_suspect(database: Database) -> list[WakeUp]:
    """Make a suspect claimable as the sweeper does. Return its wake-up."""
    return await promote.promote_suspect(database, PROBATION_SECONDS, MAX_INTERRUPTIONS)
