"""Takes new deliveries: claims them, or schedules them for the worker's loop."""

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from common.postgres import sql
from common.postgres.batcher import MAX_BATCH_BYTES
from common.postgres.statements import Executor
from services.notifier.claims.store import ClaimedDelivery, read_claim
from services.notifier.claims.tenant_slots import UNLIMITED, TenantRooms

RECEIVERS = 4  # of an event that the first statements look at; few events have more

QUERIES = sql.load("services.notifier.new_deliveries")


class NewClaims(NamedTuple):
    found: int  # new deliveries
    most: int  # of one event; RECEIVERS if it may have more
    claims: list[ClaimedDelivery]  # on those that can be sent at once


class Scheduled(NamedTuple):
    endpoints: list[UUID]
    wide: list[tuple[UUID, UUID]]  # tenants and events that may have more new deliveries


class NewDeliveryStore:
    def __init__(self, relaxed: Executor) -> None:
        """If a crash loses a commit to `relaxed`, the delivery is new again, under the same id."""
        self._relaxed = relaxed

    async def claim(
        self,
        events: Mapping[UUID, str],
        limit: int,
        lease: float,
        endpoint_concurrency: int,
        rooms: TenantRooms = UNLIMITED,
    ) -> NewClaims:
        """Claim up to `limit` new deliveries of events (with traceparents) for a lease in seconds.

        Look at RECEIVERS of each event. The bodies have MAX_BATCH_BYTES and one body more.
        """
        values = (list(events), list(events.values()), lease, endpoint_concurrency, limit, RECEIVERS)
        found = await self._relaxed.fetch(QUERIES["claim_new"], *values, *rooms.to_values(), MAX_BATCH_BYTES)
        claims = [read_claim(each) for each in found if each["id"] is not None]
        return NewClaims(found[0]["found"], found[0]["most"], claims)

    async def schedule(
        self, events: Mapping[UUID, str], delay: float, check: float, receivers: int = RECEIVERS
    ) -> Scheduled:
        """Schedule new deliveries that were not claimed, `delay` seconds ahead: up to `receivers` of each event.

        Every notifier may look at their endpoints `check` seconds from now.
        """
        values = (list(events), list(events.values()), delay, check, receivers)
        found = await self._relaxed.fetch(QUERIES["schedule_new"], *values)
        return Scheduled(
            [each["endpoint_id"] for each in found if each["endpoint_id"]],
            [(each["tenant_id"], each["event_id"]) for each in found if each["event_id"]],
        )

    async def find(self, age: float, limit: int) -> list[tuple[UUID, str]]:
        """Return the event of each delivery that is new for `age` seconds, with the event's traceparent."""
        found = await self._relaxed.fetch(QUERIES["find_new"], age, limit)
        return [(record["event_id"], record["traceparent"]) for record in found]

    async def check_missed_endpoints(self, lease: float) -> int:
        """Correct the next check of endpoints that are checked later than a lease after their first delivery is due.

        Return how many.
        """
        return len(await self._relaxed.fetch(QUERIES["check_missed_endpoints"], lease))
