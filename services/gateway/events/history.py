"""Follows the events of a job: each event once, in order, from any position."""

import asyncio
import re
from collections.abc import AsyncGenerator
from typing import NamedTuple
from uuid import UUID

import msgspec

from common import ids
from common.event_types import EVENT_TYPES, STEP_EVENTS, TERMINAL_EVENTS, number_event
from common.job_states import TERMINAL, Status
from common.views.job import JobUrls, format_time
from common.views.job_parts import AttemptFailure
from services.gateway.auth.store import Key
from services.gateway.events.store import EventPosition, EventStore, HistoryRow
from services.gateway.events.waiters import Waiter, Waiters
from services.gateway.http.limits.response_limits import ResponseLease

PAGE_EVENTS = 100
PAGE_BYTES = 1024 * 1024  # bounds the memory of a slow client; a larger event needs room in the budget of responses
STREAM_SECONDS = 3600.0  # longest stream; the client then reconnects
EVENT_ID = re.compile(r"([0-9]{1,18})\.([0-9]{1,10})")
STATUSES = {
    "job.queued": Status.QUEUED,
    "job.started": Status.PROCESSING,
    "job.output": Status.PROCESSING,
    "job.canceling": Status.CANCELING,
} | {f"job.{status}": status for status in TERMINAL}
KNOWN_TYPES = {*STATUSES, *STEP_EVENTS}


class StepView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The data of an event before the job's end, or after an erasure.

    In a `job.queued` after an attempt, `error` says how the attempt failed.
    """

    id: str
    status: Status
    attempt: int | None = None
    model: str | None = None
    error: AttemptFailure | None = None
    outputs: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class EventView(msgspec.Struct, frozen=True, kw_only=True):
    """The body of an event. `data` is the Job in terminal events, that of a step in a run's, and a StepView in others.

    `sequence` is that of the event's webhooks. Only `job.started` and terminal events have one.
    """

    type: str
    timestamp: str
    sequence: int | msgspec.UnsetType = msgspec.UNSET
    data: msgspec.Raw


class Event(NamedTuple):
    """`body` is the JSON of an EventView."""

    id: str
    type: str
    body: bytes

    @property
    def is_end(self) -> bool:
        return self.type in TERMINAL_EVENTS


class Page(NamedTuple):
    """Events. More may follow a page that is full. `after` is the position up to which the history was read."""

    events: list[Event]
    is_full: bool
    after: EventPosition


def format_event_id(position: EventPosition) -> str:
    return f"{position.claim}.{position.number}"


def parse_event_id(text: str) -> EventPosition | None:
    """Return the position of an event id, or None for an invalid one."""
    found = EVENT_ID.fullmatch(text)
    if found is None or int(found.group(2)) >= 2**31:
        return None
    return EventPosition(int(found.group(1)), int(found.group(2)))


def is_known(row: HistoryRow) -> bool:
    """Return whether this release knows the type of an event."""
    return row.type in KNOWN_TYPES


def to_event(job_id: UUID, row: HistoryRow, urls: JobUrls) -> Event:
    if row.type in TERMINAL_EVENTS and row.body is not None:
        return Event(format_event_id(row.position), row.type, row.body)
    if row.type in STEP_EVENTS:
        return Event(format_event_id(row.position), row.type, encode(row, view_step_event(job_id, row.body or b"{}")))
    error = None if row.error_code is None else AttemptFailure(row.error_code, row.error_message or "")
    step = StepView(
        id=ids.encode(ids.Kind.JOB, job_id),
        status=STATUSES[row.type],
        attempt=row.attempt,
        model=row.model,
        error=error,
        outputs=msgspec.UNSET
        if row.body is None
        else msgspec.Raw(urls.add_file_urls(row.body, job=job_id if row.is_shared else None)),
    )
    return Event(format_event_id(row.position), row.type, encode(row, msgspec.Raw(msgspec.json.encode(step))))


def view_step_event(run: UUID, body: bytes) -> msgspec.Raw:
    """Return the data of an event of a step. A run has such events only while it runs."""
    found = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    own = {"id": ids.encode(ids.Kind.JOB, run), "status": Status.PROCESSING}
    return msgspec.Raw(msgspec.json.encode({**own, **found}))


def encode(row: HistoryRow, data: msgspec.Raw) -> bytes:
    sequence = number_event(row.type, row.position.claim) if row.type in EVENT_TYPES else msgspec.UNSET
    return msgspec.json.encode(EventView(type=row.type, timestamp=format_time(row.at), sequence=sequence, data=data))


async def wait_for_change(waiter: Waiter, seconds: float) -> bool:
    """Wait until the job changes. Return False after `seconds` without a change."""
    try:
        async with asyncio.timeout(seconds):
            await waiter.changed.wait()
    except TimeoutError:
        return False
    waiter.changed.clear()
    return True


class JobHistory:
    """The past and future events of a job."""

    def __init__(self, store: EventStore, waiters: Waiters, urls: JobUrls, keep_alive: float) -> None:
        """`keep_alive` is in seconds."""
        self._urls = urls
        self.store = store
        self.waiters = waiters
        self._keep_alive = keep_alive

    async def has_events(self, job_id: UUID, after: EventPosition) -> bool:
        """Return whether the job has an event after a position."""
        rows = await self.store.list_history(job_id, after, 1, PAGE_BYTES)
        if rows and not is_known(rows[0]):
            rows = await self.store.list_history(job_id, after, PAGE_EVENTS, PAGE_BYTES)
        return any(map(is_known, rows))

    async def read(
        self, job_id: UUID, key: Key, lease: ResponseLease, after: EventPosition, limit: int = PAGE_EVENTS
    ) -> Page:
        """Return a page of the events after a position: `limit` events, fewer if they are large.

        Events of a later release are left out. A large response is the last of its page. The lease holds its bytes.
        Raises Problem (503) without room for them.
        """
        rows = await self.store.list_history(job_id, after, limit, PAGE_BYTES)
        if rows and rows[-1].lacks_body:
            await lease.reserve(key.tenant_id, rows[-1].size)
            rows[-1] = rows[-1]._replace(body=await self.store.read_response(job_id, rows[-1].position))
        is_full = len(rows) == limit or sum(row.size for row in rows) >= PAGE_BYTES
        events = [to_event(job_id, row, self._urls) for row in rows if is_known(row)]
        return Page(events, is_full, rows[-1].position if rows else after)

    async def follow(
        self, job_id: UUID, key: Key, lease: ResponseLease, after: EventPosition
    ) -> AsyncGenerator[Event | None, None]:
        """Yield events after a position as they come, until the job ends. Yield None as a keep-alive.

        Ends early when the gateway stops, or the client reads a large response too slowly. Raises Problem: 401 after
        the key is revoked, 503 without room for a large response. Raises Unavailable without a database.
        """
        until, ended = asyncio.get_running_loop().time() + STREAM_SECONDS, False
        with self.waiters.register(job_id, key) as waiter:
            waiter.snapshot = await self.waiters.find_snapshot(job_id)
            while True:
                is_over = waiter.is_over  # read it before the events, so that they include the last one
                events, is_full, after = await self.read(job_id, key, lease, after)
                for event in events:
                    yield event
                if events:
                    ended = events[-1].is_end
                    del events, event  # before a wait
                lease.release()
                if lease.is_cut:
                    return
                if is_full:
                    continue
                if is_over or ended:
                    return
                if self.waiters.closing or asyncio.get_running_loop().time() > until:
                    return
                while not await wait_for_change(waiter, self._keep_alive):
                    yield None
                    if asyncio.get_running_loop().time() > until:
                        return
                waiter.check_key()
