"""Follows the feeds of tenants: each event once, in order, from any position.

Concurrent reads from one position share a statement. One statement at a time looks for all who wait whether their feed
goes on.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator
from functools import partial
from typing import NamedTuple
from uuid import UUID

from common import ids
from common.errors import Unavailable
from common.postgres.batcher import Batcher
from common.telemetry.logs import Log
from services.gateway.auth.model_permissions import may_run
from services.gateway.auth.store import Key
from services.gateway.events.event_types import matches
from services.gateway.events.feed.store import FeedPlace, FeedPosition, FeedRow, FeedStore
from services.gateway.events.history import PAGE_BYTES, STREAM_SECONDS, Event, wait_for_change
from services.gateway.events.waiters import Waiter, Waiters
from services.gateway.http.limits.response_limits import ResponseLease

SCAN_EVENTS = 500  # that one statement looks at for a reader
MAX_SCANS = 20  # in one answer; few events may match
MAX_PLACES = 100  # in one statement
POLL_SECONDS = 0.25  # finds events that no message tells of: starts, and those of the notifier
PAUSE_SECONDS = 0.05  # between two looks, so that one serves many changes
ADOPTED_EVENTS = 1000  # at a time
PAGE_EVENTS = 100

log = Log("feed")


class FeedPage(NamedTuple):
    """Events. `after` is the position up to which the feed was read, past events that were left out."""

    events: list[Event]
    after: FeedPosition
    has_more: bool


def format_position(position: FeedPosition) -> str:
    """Return the id of an event with its transaction, so that a reader can go on after an event that was erased."""
    return f"{ids.encode(ids.Kind.EVENT, position.id)}.{position.xid}"


class EventFeed:
    """The feeds of all tenants."""

    def __init__(self, store: FeedStore, waiters: Waiters, keep_alive: float) -> None:
        """`keep_alive` is in seconds."""
        self.store = store
        self.waiters = waiters
        self._keep_alive = keep_alive
        self._changed = asyncio.Event()
        self._waiting: Counter[tuple[UUID, FeedPosition]] = Counter()
        self._reading: dict[FeedPlace, asyncio.Task[list[FeedRow]]] = {}
        self._reads: Batcher[FeedPlace, list[FeedRow]] = Batcher(self._list_events, name="feed", limit=MAX_PLACES)

    async def _list_events(self, places: list[FeedPlace]) -> list[list[FeedRow]]:
        return await self.store.list_events(places, SCAN_EVENTS, PAGE_BYTES)

    async def _scan(self, place: FeedPlace) -> list[FeedRow]:
        """Return the next events after a place. Concurrent calls for one place share a read."""
        if place not in self._reading:
            self._reading[place] = asyncio.create_task(self._reads.submit(place))
            self._reading[place].add_done_callback(partial(self._forget_read, place))
        return await asyncio.shield(self._reading[place])

    def _forget_read(self, place: FeedPlace, read: asyncio.Task[list[FeedRow]]) -> None:
        del self._reading[place]
        if not read.cancelled():
            read.exception()  # all who waited for it may have gone

    async def read(
        self, key: Key, lease: ResponseLease, types: tuple[str, ...], after: FeedPosition, limit: int = PAGE_EVENTS
    ) -> FeedPage:
        """Return a page of the events after a position: `limit` events, fewer if they are large.

        `types` are patterns of the wanted types, also in the methods below.
        A large event has a page of its own. The lease holds its bytes. Raises Problem (503) without room for them.
        """
        events: list[Event] = []
        size = 0
        for _ in range(MAX_SCANS):
            rows = await self._scan(FeedPlace(key.tenant_id, after, types))
            for row in rows:
                if is_shown(row, key, types):
                    size += row.size
                    if events and (len(events) == limit or size > PAGE_BYTES):
                        return FeedPage(events, after, True)
                    body = row.body
                    if body is None:
                        await lease.reserve(key.tenant_id, row.size)
                        body = await self.store.read_body(row.position.id, key.tenant_id)
                    if body is not None:  # not erased meanwhile
                        events.append(Event(format_position(row.position), row.type, body))
                after = row.position
            if len(rows) < SCAN_EVENTS and sum(row.size for row in rows) < PAGE_BYTES:
                return FeedPage(events, after, False)
        return FeedPage(events, after, True)

    async def wait(self, key: Key, types: tuple[str, ...], after: FeedPosition, seconds: float) -> None:
        """Return when an event of these types follows, after `seconds`, or when the gateway stops.

        Raises Problem: 401 soon after the key is revoked, 429 or 503 without capacity.
        """
        with self.waiters.register(key.tenant_id, key) as waiter, contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self.waiters.closing:
                    rows = await self._scan(FeedPlace(key.tenant_id, after, types))
                    if any(is_shown(row, key, types) for row in rows):
                        return
                    if rows:
                        after = rows[-1].position
                    else:
                        self.note_change()  # an event may have come since the read
                        await self._wait_for_more(waiter, key, after, seconds)

    async def follow(
        self, key: Key, lease: ResponseLease, types: tuple[str, ...], after: FeedPosition
    ) -> AsyncGenerator[Event | None, None]:
        """Yield events of some types after a position as they come. Yield None as a keep-alive.

        Ends after an hour, when the gateway stops, or when the client reads a large event too slowly. Raises Problem:
        401 after the key is revoked, 503 without room for a large event. Raises Unavailable without a database.
        """
        until = asyncio.get_running_loop().time() + STREAM_SECONDS
        with self.waiters.register(key.tenant_id, key) as waiter:
            while asyncio.get_running_loop().time() < until:
                events, after, has_more = await self.read(key, lease, types, after)
                for event in events:
                    yield event
                if events:
                    del events, event  # before a wait
                lease.release()
                if lease.is_cut or self.waiters.closing:
                    return
                if has_more:
                    continue
                self.note_change()  # an event may have come since the read
                while not await self._wait_for_more(waiter, key, after, self._keep_alive):
                    yield None
                    if asyncio.get_running_loop().time() > until:
                        return

    async def _wait_for_more(self, waiter: Waiter, key: Key, after: FeedPosition, seconds: float) -> bool:
        """Wait until the feed goes on. Return False after `seconds`. Raises Problem (401) if the key was revoked."""
        place = key.tenant_id, after
        self._waiting[place] += 1
        try:
            changed = await wait_for_change(waiter, seconds)
        finally:
            self._waiting[place] -= 1
            if not self._waiting[place]:
                del self._waiting[place]
        waiter.check_key()
        return changed

    def note_change(self) -> None:
        """Look soon whether feeds go on."""
        self._changed.set()

    async def watch(self) -> None:
        """Wake those whose feed goes on, until cancelled."""
        await self._adopt_restored()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._changed.wait()
            self._changed.clear()
            if self._waiting:
                await self._wake_waiting()
            await asyncio.sleep(PAUSE_SECONDS)

    async def _wake_waiting(self) -> None:
        try:
            tenants = await self.store.find_news(list(self._waiting))
        except Unavailable as error:
            log.warning("feed.look_failed", waiting=len(self._waiting), error=error)
            return
        for tenant_id in tenants:
            self.waiters.wake(tenant_id)

    async def _adopt_restored(self) -> None:
        """Adopt the events of a restored dump."""
        try:
            while await self.store.adopt_restored(ADOPTED_EVENTS) == ADOPTED_EVENTS:
                continue
        except Unavailable as error:
            log.warning("feed.adopt_failed", error=error)


def is_shown(row: FeedRow, key: Key, types: tuple[str, ...]) -> bool:
    """Return whether a reader wants an event, and its key may see it. A key for some models sees events of no model."""
    return matches(row.type, types) and (row.model is None or may_run(key.models, row.model))
