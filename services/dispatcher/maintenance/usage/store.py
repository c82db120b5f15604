"""Adds up what tenants used."""

from typing import NamedTuple
from uuid import UUID

from common.jobs.forget_counted import forget_counted_jobs
from common.postgres import sql
from common.postgres.database import Database

QUERIES = sql.load("services.dispatcher.maintenance.usage")
LAST_ID = 2**64 - 1  # no transaction ever has it


class UsageSum(NamedTuple):
    """What a tenant used of a model. `jobs`: how many ends this is the sum of."""

    tenant_id: UUID
    model: str
    succeeded: int
    failed: int
    canceled: int
    expired: int
    inference_seconds: float
    bytes_in: int
    bytes_out: int
    prompt_tokens: int
    completion_tokens: int
    reused: int
    jobs: int


async def roll_up(database: Database, limit: int) -> list[UsageSum]:
    """Add `limit` ended jobs, and the rest of the last one's transaction, to the usage of their tenants.

    Return the sums when they are committed, or nothing while another instance adds.
    """
    async with database.transaction() as connection:
        progress = await connection.fetchrow(QUERIES["lock_usage_progress"])
        if progress is None:
            return []
        await connection.fetch(QUERIES["wait_for_retries"])
        start, own_id = progress["counted_before"], progress["own_id"]
        bound = await connection.fetchval(QUERIES["find_usage_bound"], start, limit)
        # If it was restored from a dump of a server with larger ids: count what that one had not.
        end = LAST_ID if start > own_id else bound
        found = await connection.fetch(QUERIES["count_usage"], start, end)
        await connection.fetch(QUERIES["set_usage_progress"], bound)
        await forget_counted_jobs(connection, limit)
    return [UsageSum(*record.values()) for record in found]
