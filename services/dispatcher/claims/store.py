"""Claims jobs and renews their leases in the database."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from common.jobs import Priority
from common.postgres import sql
from common.postgres.batcher import MAX_BATCH_BYTES
from common.postgres.database import Connection, Database, to_columns
from common.rabbitmq.wake_ups import WakeUp, job_wake_up
from services.dispatcher.claims.claimed_job import ClaimedJob, ClaimKey, read_claimed_job
from services.dispatcher.claims.input_budget import Room

QUERIES = sql.load("services.dispatcher.claims") | sql.load("services.dispatcher.claims", "limits.sql")

USUAL = Room(MAX_BATCH_BYTES, 0)
LATE_SECONDS = 0.25  # after which the message of a waiting job is lost, or waits behind others


class ClaimBatch(NamedTuple):
    """Claimed jobs in the order of their turns.

    `contended`: more may be queued, but other transactions hold them. `next_bytes` are those of the inputs of the next
    job whose turn it is, if it did not fit. `late`: more could be claimed at once, and no message announces them.
    """

    jobs: list[ClaimedJob]
    contended: bool
    next_bytes: int | None = None
    late: bool = False


class HeldClaim(NamedTuple):
    """A claim that is still held. `renewed`: its lease was renewed; otherwise the job was locked."""

    renewed: bool
    canceling: bool


class Limits(NamedTuple):
    """The models with limits, the paused tenants, and by model the tenants on probation."""

    models: frozenset[str]
    paused_tenants: frozenset[UUID]
    on_probation: Mapping[str, frozenset[UUID]] = {}


class ClaimStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim_jobs(
        self,
        model: str,
        priority: Priority,
        count: int,
        last_tenant: UUID,
        running: Mapping[UUID, int],
        worker: str,
        lease: float,
        session: int | None = None,
        closed_tenants: Collection[UUID] = (),
        room: Room = USUAL,
        on_probation: Collection[UUID] = (),
    ) -> ClaimBatch:
        """Claim up to `count` jobs fairly, with inputs that fit into `room`.

        `last_tenant` is the tenant served last. `running` is the number of jobs of each tenant that count as running.
        `session` is the worker's, while it holds the lock. `closed_tenants` get none, and those `on_probation` only
        suspects.
        """
        turn = model, priority, count, last_tenant, list(running), list(running.values())
        async with self._database.acquire() as connection:
            rest = worker, lease, session, list(closed_tenants), None, *room
            return await run_claim(connection, *turn, *rest, on_probation=on_probation)

    async def claim_within_limits(
        self,
        model: str,
        priority: Priority,
        count: int,
        last_tenant: UUID,
        worker: str,
        lease: float,
        session: int | None = None,
        closed_tenants: Collection[UUID] = (),
        room: Room = USUAL,
        on_probation: Collection[UUID] = (),
    ) -> ClaimBatch:
        """Claim as many of the jobs as the limits of the model allow, over all dispatchers.

        `closed_tenants` get none beside those that the limits exclude.
        """
        async with self._database.transaction() as connection:
            await connection.execute(QUERIES["lock_limits"], model)
            found = await connection.fetchrow(QUERIES["find_room"], model, count)
            assert found is not None, "the function returns one row"
            if found["jobs"] == 0:
                return ClaimBatch([], contended=False)
            turn = model, priority, found["jobs"], last_tenant, found["tenants"] or [], found["running"] or []
            closed = [*{*(found["closed"] or ()), *closed_tenants}]
            rest = worker, lease, session, closed, found["per_tenant"], *room
            claimed = await run_claim(connection, *turn, *rest, on_probation=on_probation)
            return claimed._replace(late=claimed.late and found["jobs"] == count)

    async def list_limits(self) -> Limits:
        record = await self._database.fetch_one(QUERIES["list_limits"])
        assert record is not None, "the query returns one row"
        on_probation: defaultdict[str, set[UUID]] = defaultdict(set)
        for model, tenant in zip(record["probation_models"], record["probation_tenants"], strict=True):
            on_probation[model].add(tenant)
        tenants = {model: frozenset(found) for model, found in on_probation.items()}
        return Limits(frozenset(record["models"]), frozenset(record["paused_tenants"]), tenants)

    async def find_next_jobs(self, model: str, count: int) -> list[WakeUp]:
        """Return wake-ups for up to `count` claimable jobs of each priority of a model."""
        found = await self._database.fetch(QUERIES["find_next_jobs"], model, count, list(Priority))
        return [job_wake_up(Priority(record["priority"]), model, record["traceparent"]) for record in found]

    async def renew_leases(self, claims: Sequence[ClaimKey], lease: float) -> dict[ClaimKey, HeldClaim]:
        """Return the claims that are still held, each with whether a cancel was requested. `lease` is in seconds."""
        found = await self._database.fetch(QUERIES["renew_leases"], *to_columns(claims, 2), lease)
        return {(each["id"], each["claim"]): HeldClaim(each["renewed"], each["canceling"]) for each in found}


async def run_claim(connection: Connection, *values: object, on_probation: Collection[UUID]) -> ClaimBatch:
    """Run the claim statement with its values."""
    found = await connection.fetch(QUERIES["claim_jobs"], *values, LATE_SECONDS, list(on_probation))
    jobs = [read_claimed_job(dict(record)) for record in found if record["id"]]
    return ClaimBatch(jobs, found[0]["contended"], found[0]["next_bytes"], found[0]["late"])
