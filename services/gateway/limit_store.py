"""The statements behind the limits, one function each."""

from collections.abc import Collection, Sequence
from typing import NamedTuple, TypeAlias
from uuid import UUID

from common import sql
from common.database import Database, columns

Queue: TypeAlias = UUID | str  # a tenant's, or a model's

QUERIES = sql.load("services.gateway", "limits.sql")


class Taken(NamedTuple):
    """Permits out of a bucket, and in how many seconds it is full again."""

    permits: int
    full_in: float


class Count(NamedTuple):
    """Jobs that wait in a queue, counted up to its limit."""

    jobs: int
    limit: int


class Ended(NamedTuple):
    """Jobs of a queue that ended lately, and how many seconds ago the first of them did."""

    jobs: int
    seconds: float


class Due(NamedTuple):
    """Jobs of a queue that could run now, and in how many seconds the next can, where one waits for its time; `whole`
    where all that wait were looked at."""

    jobs: int
    next_in: float | None
    whole: bool = True


class LimitStore:
    def __init__(self, database: Database) -> None:
        self.database = database

    async def take_permits(self, wanted: Sequence[tuple[UUID, int, int]]) -> dict[UUID, Taken]:
        """By key, of (key, permits, permits a second); a key without a bucket is left out."""
        found = await self.database.fetch(QUERIES["take_permits"], *columns(wanted, 3))
        return {record["key_id"]: Taken(record["permits"], record["full_in"]) for record in found}

    async def add_buckets(self, keys: Sequence[UUID]) -> None:
        await self.database.fetch(QUERIES["add_buckets"], keys)

    async def count_queues(self, queues: Collection[Queue], per_tenant: int, per_model: int) -> dict[Queue, Count]:
        """`per_tenant` is the limit of a tenant that has none of its own."""
        found = await self.database.fetch(QUERIES["count_queues"], *sort(queues), per_tenant, per_model)
        return {record["tenant_id"] or record["model"]: Count(record["jobs"], record["most"]) for record in found}

    async def count_due(self, queues: Collection[Queue], limit: int) -> dict[Queue, Due]:
        """Of at most `limit` jobs of each; a queue in which nothing waits is left out."""
        found = await self.database.fetch(QUERIES["count_due"], *sort(queues), limit)
        return {each["tenant_id"] or each["model"]: Due(each["jobs"], each["next_in"], each["whole"]) for each in found}

    async def count_ended(self, limit: int) -> dict[Queue, Ended]:
        """Of the latest `limit` that ended within a minute."""
        counts: dict[Queue, Ended] = {}
        for record in await self.database.fetch(QUERIES["count_ended"], limit):
            for queue in (record["tenant_id"], record["model"]):
                jobs, seconds = counts.get(queue, (0, 0.0))
                counts[queue] = Ended(jobs + record["jobs"], max(seconds, record["seconds"]))
        return counts


def sort(queues: Collection[Queue]) -> tuple[list[UUID], list[str]]:
    """Tenants, and models."""
    tenants = [queue for queue in queues if isinstance(queue, UUID)]
    return tenants, [queue for queue in queues if isinstance(queue, str)]
