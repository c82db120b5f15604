"""Claims jobs and renews their leases in the database."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from common.jobs import Priority
from common.postgres import sql
from common.postgres.database import Database, to_columns
from services.dispatcher.claims.claimed_job import ClaimedJob, read_claimed_job

QUERIES = sql.load("services.dispatcher.claims")


class ClaimBatch(NamedTuple):
    """Claimed jobs in the order of their turns. `contended`: more may be queued, but other transactions hold them."""

    jobs: list[ClaimedJob]
    contended: bool


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
    ) -> ClaimBatch:
        """Claim up to `count` jobs fairly.

        `last_tenant` is the tenant served last. `running` is the number of running jobs of each tenant.
        `session` is the worker's, while it holds the lock.
        """
        turn = count, last_tenant, list(running), list(running.values())
        found = await self._database.fetch(QUERIES["claim_jobs"], model, priority, *turn, worker, lease, session)
        return ClaimBatch([read_claimed_job(dict(record)) for record in found if record["id"]], found[0]["contended"])

    async def renew_leases(self, claims: Sequence[tuple[UUID, int]], lease: float) -> dict[UUID, bool]:
        """Return the jobs that are still held, each with whether a cancel was requested."""
        found = await self._database.fetch(QUERIES["renew_leases"], *to_columns(claims, 2), lease)
        return {record["id"]: record["canceling"] for record in found}
