"""Reads the feeds of tenants."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from common.postgres import sql
from common.postgres.database import Database, to_columns

QUERIES = sql.load("services.gateway.events.feed")


class FeedPosition(NamedTuple):
    """The position of an event in its tenant's feed. START is before all of them."""

    xid: int  # the transaction that recorded the event
    id: UUID


START = FeedPosition(0, UUID(int=0))


class FeedPlace(NamedTuple):
    """A position in a tenant's feed. Bodies are read only of events whose type one of these patterns matches."""

    tenant_id: UUID
    after: FeedPosition
    types: tuple[str, ...]


class FeedRow(NamedTuple):
    """An event. `body` is that of its webhooks, byte for byte, or None if it is too large or has another type.

    `size` is that of the body, and 0 for another type.
    """

    position: FeedPosition
    type: str
    model: str | None
    body: bytes | None
    size: int


class FeedStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_events(self, places: Sequence[FeedPlace], limit: int, size: int) -> list[list[FeedRow]]:
        """Return the events after each place, oldest first: at most `limit`, until the bodies reach `size` bytes.

        A single body over `size` is left out.
        """
        found: list[list[FeedRow]] = [[] for _ in places]
        rows = [(tenant_id, *after, ",".join(types)) for tenant_id, after, types in places]
        for number, xid, event_id, *rest in await self._database.fetch(
            QUERIES["list_feed"], *to_columns(rows, 4), limit, size
        ):
            found[number - 1].append(FeedRow(FeedPosition(xid, event_id), *rest))
        return found

    async def find_news(self, waiting: Sequence[tuple[UUID, FeedPosition]]) -> set[UUID]:
        """Return those of the tenants whose feed goes on after the position."""
        rows = [(tenant_id, *after) for tenant_id, after in waiting]
        return {
            record["tenant_id"] for record in await self._database.fetch(QUERIES["find_news"], *to_columns(rows, 3))
        }

    async def read_body(self, event_id: UUID, tenant_id: UUID) -> bytes | None:
        """Return the body of an event, or None if it was erased."""
        record = await self._database.fetch_one(QUERIES["read_event_body"], event_id, tenant_id)
        return None if record is None else record["body"]

    async def find_position(self, event_id: UUID, tenant_id: UUID, xid: int | None) -> FeedPosition | None:
        """Return the position of an event. One that is gone is where `xid` says, if that is not in the future."""
        record = await self._database.fetch_one(QUERIES["find_feed_position"], event_id, tenant_id, xid)
        if record is None or (record["xid"] is None and not record["is_past"]):
            return None
        return FeedPosition(xid or 0 if record["xid"] is None else record["xid"], event_id)

    async def find_end(self, tenant_id: UUID) -> FeedPosition:
        """Return the position of the tenant's last event."""
        record = await self._database.fetch_one(QUERIES["find_feed_end"], tenant_id)
        return START if record is None else FeedPosition(*record.values())

    async def adopt_restored(self, limit: int) -> int:
        """Put events from a dump of another server at the beginning of their feed. Return how many, at most `limit`."""
        return len(await self._database.fetch(QUERIES["adopt_restored_events"], limit))
