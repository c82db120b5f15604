"""Claims jobs and renews their leases in the database."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

import asyncpg

from common.jobs import Priority
from common.postgres import sql
from common.postgres.database import Database, to_columns
from services.dispatcher.claims.claimed_job import ClaimedJob, read_claimed_job
from services.dispatcher.models.fair_share import Cursor
from services.dispatcher.retry import MAX_INTERRUPTIONS

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
        cursor: Cursor,
        running: Mapping[UUID, int],
        worker: str,
        lease: float,
    ) -> ClaimBatch:
        """Claim up to `count` jobs fairly. `running` is the number of running jobs of each tenant."""
        try:
            found = await self._database.fetch(
                QUERIES["claim_jobs"],
                *(model, priority, count, cursor.tenant, list(running), list(running.values())),
                *(worker, lease, MAX_INTERRUPTIONS, cursor.job),
            )
        except asyncpg.UniqueViolationError:  # a concurrent claim: jobs_one_suspected_poison
            return ClaimBatch([], True)
        return ClaimBatch([read_claimed_job(dict(record)) for record in found if record["id"]], found[0]["contended"])

    async def renew_leases(self, claims: Sequence[tuple[UUID, int]], lease: float) -> dict[UUID, bool]:
        """Return the jobs that are still held, each with whether a cancel was requested."""
        found = await self._database.fetch(QUERIES["renew_leases"], *to_columns(claims, 2), lease)
        return {record["id"]: record["canceling"] for record in found}
