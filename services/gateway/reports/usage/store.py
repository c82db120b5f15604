"""Reads what tenants used."""

from datetime import date
from typing import NamedTuple
from uuid import UUID

from common.postgres import sql
from common.postgres.database import Database

QUERIES = sql.load("services.gateway.reports.usage")


class UsageCursor(NamedTuple):
    """A place in the list of usage: after the row of this day and model."""

    day: date
    model: str


class UsageRow(NamedTuple):
    day: date
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


class UsageStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(
        self, tenant_id: UUID, after: UsageCursor, since: date, model: str | None, limit: int
    ) -> list[UsageRow]:
        """Return the tenant's usage after a place, newest day first."""
        found = await self._database.fetch(QUERIES["list_usage"], tenant_id, *after, since, model, limit)
        return [UsageRow(*record.values()) for record in found]
