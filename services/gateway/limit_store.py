"""The statements behind the limits, one function each."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from common import sql
from common.database import Database, columns

QUERIES = sql.load("services.gateway", "limits.sql")


class Taken(NamedTuple):
    """Permits out of a bucket, and in how many seconds it is full again."""

    permits: int
    full_in: float


class LimitStore:
    def __init__(self, database: Database) -> None:
        self.database = database

    async def take_permits(self, wanted: Sequence[tuple[UUID, int, int]]) -> dict[UUID, Taken]:
        """By key, of (key, permits, permits a second); a key without a bucket is left out."""
        found = await self.database.fetch(QUERIES["take_permits"], *columns(wanted, 3))
        return {record["key_id"]: Taken(record["permits"], record["full_in"]) for record in found}

    async def add_buckets(self, keys: Sequence[UUID]) -> None:
        await self.database.fetch(QUERIES["add_buckets"], keys)
