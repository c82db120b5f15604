"""Takes new deliveries: claims them, or schedules them for the worker's loop."""

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from common.postgres import sql
from common.postgres.database import Database
from services.notifier.store.claims import Claim, read_claim

QUERIES = sql.load("services.notifier.store", "new_deliveries.sql")


class NewClaims(NamedTuple):
    found: int  # new deliveries
    claims: list[Claim]  # on those that can be sent at once


class NewDeliveryStore:
    def __init__(self, relaxed: Database) -> None:
        """If a crash loses a commit to `relaxed`, the delivery is new again, under the same id."""
        self._relaxed = relaxed

    async def claim(self, events: Mapping[UUID, str], limit: int, lease: float, endpoint_concurrency: int) -> NewClaims:
        """Claim up to `limit` new deliveries of events (with traceparents) for a lease in seconds."""
        values = (list(events), list(events.values()), lease, endpoint_concurrency, limit)
        found = await self._relaxed.fetch(QUERIES["claim_new"], *values)
        return NewClaims(found[0]["found"], [read_claim(each) for each in found if each["id"] is not None])

    async def schedule(self, events: Mapping[UUID, str], delay: float, lease: float) -> list[UUID]:
        """Schedule the new deliveries that were not claimed, `delay` seconds ahead. Return their endpoints."""
        values = (list(events), list(events.values()), delay, lease)
        return [record["endpoint_id"] for record in await self._relaxed.fetch(QUERIES["schedule_new"], *values)]

    async def find(self, age: float, limit: int) -> list[tuple[UUID, str]]:
        """Return the event of each delivery that is new for `age` seconds, with the event's traceparent."""
        found = await self._relaxed.fetch(QUERIES["find_new"], age, limit)
        return [(record["event_id"], record["traceparent"]) for record in found]

    async def check_missed_endpoints(self, lease: float) -> int:
        """Correct the next check of endpoints that are checked later than a lease after their first delivery is due.

        Return how many.
        """
        return len(await self._relaxed.fetch(QUERIES["check_missed_endpoints"], lease))
