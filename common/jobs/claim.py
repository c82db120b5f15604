"""Claims queued jobs for a worker."""

from collections.abc import Collection, Mapping
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

STATEMENTS = statements.load("common.jobs", "claim.sql")
MOVES = (Moves("claim_jobs", [Move(Status.QUEUED, Status.PROCESSING)]),)
LATE_SECONDS = 0.25  # after which the message of a waiting job is lost, or waits behind others


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs to claim, and for whom. `lease` is in seconds."""

    model: str
    priority: Priority
    count: int
    worker: str
    session: int | None = None
    """The worker's, while it holds the lock."""
    lease: float
    last_tenant: UUID
    """The tenant served last."""
    closed_tenants: Collection[UUID] = ()
    """Tenants that get none."""
    on_probation: Collection[UUID] = ()
    """Tenants that get only suspects."""
    max_bytes: int = MAX_BATCH_BYTES
    """Of the inputs together."""
    max_passing_bytes: int = 0
    """Of small jobs that pass those that do not fit."""


class ClaimBatch(NamedTuple):
    """Claimed jobs in the order of their turns.

    `contended`: more may be queued, but other transactions hold them. `next_bytes` are those of the inputs of the next
    job whose turn it is, if it did not fit. `late`: more could be claimed at once, and no message announces them.
    """

    jobs: list[JobToRun]
    contended: bool
    next_bytes: int | None = None
    late: bool = False


async def claim_jobs(executor: Executor, turn: Turn, running: Mapping[UUID, int]) -> ClaimBatch:
    """Claim jobs fairly. `running` is the number of jobs of each tenant that count as running."""
    return await _claim(executor, turn, running)


async def claim_within_limits(database: Database, turn: Turn) -> ClaimBatch:
    """Claim as many of the jobs as the limits of the model allow, over all dispatchers."""
    async with database.transaction() as connection:
        await STATEMENTS["lock_limits"].run(connection, model=turn.model)
        (room,) = await STATEMENTS["find_room"].run(connection, model=turn.model, wanted=turn.count)
        if room["jobs"] == 0:
            return ClaimBatch([], contended=False)
        running = dict(zip(room["tenants"] or (), room["running"] or (), strict=True))
        closed = {*(room["closed"] or ()), *turn.closed_tenants}
        allowed = msgspec.structs.replace(turn, count=room["jobs"], closed_tenants=closed)
        claimed = await _claim(Settled(connection), allowed, running, per_tenant=room["per_tenant"])
        return claimed._replace(late=claimed.late and room["jobs"] == turn.count)


async def _claim(
    executor: Executor, turn: Turn, running: Mapping[UUID, int], per_tenant: int | None = None
) -> ClaimBatch:
    found = await STATEMENTS["claim_jobs"].run(
        executor,
        **msgspec.structs.asdict(turn),
        busy_tenants=running.keys(),
        busy_jobs=running.values(),
        per_tenant=per_tenant,
        late_seconds=LATE_SECONDS,
    )
    jobs = [read_job(JobToRun, dict(record)) for record in found if record["id"]]
    return ClaimBatch(jobs, found[0]["contended"], found[0]["next_bytes"], found[0]["late"])
