"""Adds up what tenants used."""

from typing import NamedTuple
from uuid import UUID

from common.postgres import sql
from common.postgres.database import Database

QUERIES = sql.load("services.dispatcher.maintenance", "usage.sql")


class UsageSum(NamedTuple):
    """What a tenant used of a model. `entries`: how many entries this is the sum of."""

    tenant_id: UUID
    model: str
    succeeded: int
    failed: int
    canceled: int
    expired: int
    inference_seconds: float
    bytes_in: int
    bytes_out: int
    entries: int


class UsageStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def roll_up(self, limit: int) -> list[UsageSum]:
        """Add up to `limit` entries to the usage of their tenants. Return the sums."""
        found = await self._database.fetch(QUERIES["roll_up_usage"], limit)
        return [UsageSum(*record.values()) for record in found]
