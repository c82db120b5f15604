"""Finds jobs that wait, and claims them for a worker."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

import msgspec

from common.job_states import Priority, Status
from common.jobs.job import JobToRun, read_job
from common.jobs.moves import Move, Moves
from common.postgres import statements
from common.postgres.batcher import MAX_BATCH_BYTES
from common.postgres.database import Database, Settled
from common.postgres.statements import Executor
from common.rabbitmq.messages import QueuedJob

STATEMENTS = statements.load("common.jobs", "claim.sql")
MOVES = (Moves("claim_jobs", [Move(Status.QUEUED, Status.PROCESSING)]),)
SEARCHED_TENANTS = 60
SEARCHED_JOBS = 50  # of each tenant


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """Which waiting jobs to find, in the order of whose turns. `running` are the jobs of each tenant that count."""

    model: str
    priority: Priority
    count: int
    last_tenant: UUID
    """The tenant served last."""
    running: Mapping[UUID, int]
    closed_tenants: Collection[UUID] = ()
    """Tenants whose jobs may not start."""
    on_probation: Collection[UUID] = ()
    """Tenants of whose jobs only suspects may start."""


class Found(NamedTuple):
    """Jobs that wait, in the order of their turns. `is_all`: there are no others, but for those left out.

    `seconds`: for how long the server searched. It does not tell if it found nobody who waits.
    """

    jobs: Sequence[QueuedJob]
    is_all: bool
    seconds: float | None = None


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """For whom to claim how many jobs of a queue. `lease` is in seconds."""

    model: str
    priority: Priority
    count: int
    worker: str
    session: int | None = None
    """The worker's, while it holds the lock."""
    lease: float
    on_probation: Collection[UUID] = ()
    """Tenants that get only suspects."""
    max_bytes: int = MAX_BATCH_BYTES
    """Of the inputs together."""
    max_passing_bytes: int = 0
    """Of small jobs that pass those that do not fit."""


class LimitedRoom(NamedTuple):
    """How many jobs of a model with limits may start, and of which tenants."""

    jobs: int
    per_tenant: int | None
    closed_tenants: Collection[UUID]
    running: Mapping[UUID, int]


class ClaimBatch(NamedTuple):
    """Claimed jobs in the order of their turns.

    `waiting` are those of the offered jobs that still wait. `contended`: more of them could start, but other
    transactions hold them. `next_bytes` are those of the inputs of the next job whose turn it is, if it did not fit.
    `is_limited`: the limits of the model allow no more jobs.
    """

    jobs: Sequence[JobToRun] = ()
    waiting: Collection[UUID] = ()
    contended: bool = False
    next_bytes: int | None = None
    is_limited: bool = False


async def find_waiting(executor: Executor, search: Search) -> Found:
    """Return waiting jobs in the order of their turns."""
    values = {name: value for name, value in msgspec.structs.asdict(search).items() if name != "running"}
    found = await STATEMENTS["find_waiting"].run(
        executor,
        **values,
        busy_tenants=search.running.keys(),
        busy_jobs=search.running.values(),
        tenants=SEARCHED_TENANTS,
        per_tenant=SEARCHED_JOBS,
    )
    jobs = [QueuedJob(record["tenant_id"], record["id"]) for record in found if record["id"]]
    tenants = {record["tenant_id"] for record in found}
    is_all = len(jobs) < SEARCHED_JOBS and len(tenants) < SEARCHED_TENANTS
    return Found(jobs, is_all, float(found[-1]["seconds"]) if found else None)


async def find_room(executor: Executor, model: str, wanted: int) -> LimitedRoom:
    """Return how many of the `wanted` jobs of a model may start."""
    (room,) = await STATEMENTS["find_room"].run(executor, model=model, wanted=wanted)
    running = dict(zip(room["tenants"] or (), room["running"] or (), strict=True))
    return LimitedRoom(room["jobs"], room["per_tenant"], room["closed"] or (), running)


async def claim_jobs(executor: Executor, claim: Claim, jobs: Sequence[UUID]) -> ClaimBatch:
    """Claim as many of these jobs as are wanted, the first ones first."""
    if not jobs:
        return ClaimBatch()
    found = await STATEMENTS["claim_jobs"].run(executor, **msgspec.structs.asdict(claim), jobs=jobs)
    claimed = [read_job(JobToRun, dict(record)) for record in found if record["id"]]
    return ClaimBatch(claimed, found[0]["waiting"] or (), found[0]["contended"], found[0]["next_bytes"])


async def claim_within_limits(
    database: Database, claim: Claim, choose: Callable[[LimitedRoom], Sequence[UUID]]
) -> ClaimBatch:
    """Claim as many jobs as the limits of the model allow, over all dispatchers.

    `choose` returns the jobs to choose from, given the room for them.
    """
    async with database.transaction() as connection:
        await STATEMENTS["lock_limits"].run(connection, model=claim.model)
        room = await find_room(connection, claim.model, claim.count)
        if room.jobs == 0:
            return ClaimBatch(is_limited=True)
        allowed = msgspec.structs.replace(claim, count=room.jobs)
        claimed = await claim_jobs(Settled(connection), allowed, choose(room))
        return claimed._replace(is_limited=len(claimed.jobs) == room.jobs)
