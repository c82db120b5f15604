"""Removes old rows from the database."""

from common.jobs.remove import OLDEST, EndedJobCursor, RemovedBatch, remove_old_jobs
from common.postgres import sql
from common.postgres.database import Database

QUERIES = sql.load("services.dispatcher.maintenance", "retention.sql")


class RetentionStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def remove_old_jobs(self, age: float, limit: int, after: EndedJobCursor = OLDEST) -> RemovedBatch:
        """Remove jobs that ended more than `age` seconds ago. Examine at most `limit` jobs after the cursor."""
        return await remove_old_jobs(self._database, age, limit, after)

    async def remove_keys(self, limit: int) -> int:
        """Remove idempotency keys older than a day. Return how many were removed."""
        return len(await self._database.fetch(QUERIES["remove_keys"], limit))

    async def remove_audit_log(self, age: float, limit: int) -> int:
        """Remove entries of the audit log that are older than `age` seconds. Return how many were removed."""
        return len(await self._database.fetch(QUERIES["remove_audit_log"], age, limit))

    async def remove_batches(self, age: float, limit: int, items: int) -> int:
        """Remove batches without jobs that ended more than `age` seconds ago. Return how many were removed.

        Stops after the batch with which their items reach `items`.
        """
        return len(await self._database.fetch(QUERIES["remove_batches"], age, limit, items))
