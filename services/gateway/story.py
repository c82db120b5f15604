"""What happened to a job, told as it happens: each event once, in order, from wherever a client left off."""

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from common import ids
from common.job_view import show_time
from common.jobs import TERMINAL, TERMINAL_EVENTS, Status
from services.gateway.store import Key
from services.gateway.watch import Watch, Watcher
from services.gateway.watch_store import START, Place, Told, WatchStore

PAGE = 100
PAGE_BYTES = 1024 * 1024  # what is held for whoever listens slowly; one event may be larger
STREAM_SECONDS = 3600.0  # then the client comes again: nobody holds a place for ever
PLACE = re.compile(r"([0-9]{1,18})\.([0-9]{1,10})")
STATES = {
    "job.queued": Status.QUEUED,
    "job.started": Status.PROCESSING,
    "job.output": Status.PROCESSING,
    "job.canceling": Status.CANCELING,
} | {f"job.{status}": status for status in TERMINAL}


class StepError(msgspec.Struct, frozen=True):
    code: str
    message: str


class StepView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an event says before the job's end, or once that was erased.

    Of `job.queued` after an attempt, how that ended.
    """

    id: str
    status: Status
    attempt: int | None = None
    model: str | None = None
    error: StepError | None = None
    outputs: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class EventView(msgspec.Struct, frozen=True, kw_only=True):
    """As in a webhook, where `data` is the Job; before its end, what is new."""

    type: str
    timestamp: str
    data: msgspec.Raw


class Event(NamedTuple):
    """`body` is the JSON of an EventView."""

    id: str
    type: str
    body: bytes

    @property
    def is_end(self) -> bool:
        return self.type in TERMINAL_EVENTS


def are_large(events: Sequence[Event]) -> bool:
    """Whether there may be more behind them."""
    return sum(len(event.body) for event in events) >= PAGE_BYTES


def show_place(place: Place) -> str:
    return f"{place.claim}.{place.number}"


def read_place(text: str) -> Place | None:
    """The place in an event's id, or None where the text is none."""
    found = PLACE.fullmatch(text)
    if found is None or int(found.group(2)) >= 2**31:
        return None
    return Place(int(found.group(1)), int(found.group(2)))


def write(job_id: UUID, told: Told) -> Event:
    if told.type in TERMINAL_EVENTS and told.body is not None:
        return Event(show_place(told.place), told.type, told.body)
    error = None if told.error_code is None else StepError(told.error_code, told.error_message or "")
    step = StepView(
        id=ids.show(ids.Kind.JOB, job_id),
        status=STATES[told.type],
        attempt=told.attempt,
        model=told.model,
        error=error,
        outputs=msgspec.UNSET if told.body is None else msgspec.Raw(told.body),
    )
    return Event(show_place(told.place), told.type, encode(told.type, told.at, step))


def encode(event_type: str, at: datetime, step: StepView) -> bytes:
    data = msgspec.Raw(msgspec.json.encode(step))
    return msgspec.json.encode(EventView(type=event_type, timestamp=show_time(at), data=data))


async def has_changed(watcher: Watcher, seconds: float) -> bool:
    """Whether something happens before it is time for a heartbeat; whoever waits asks nobody meanwhile."""
    try:
        async with asyncio.timeout(seconds):
            await watcher.changed.wait()
    except TimeoutError:
        return False
    watcher.changed.clear()
    return True


class Story:
    def __init__(self, store: WatchStore, watch: Watch, heartbeat: float) -> None:
        """`heartbeat` in seconds."""
        self.store = store
        self.watch = watch
        self.heartbeat = heartbeat

    async def read(self, job_id: UUID, after: Place = START, limit: int = PAGE) -> list[Event]:
        """Not all that there is where they are `limit`, or large together."""
        return [write(job_id, told) for told in await self.store.tell_story(job_id, after, limit, PAGE_BYTES)]

    async def follow(self, job_id: UUID, key: Key, after: Place) -> AsyncGenerator[Event | None, None]:
        """Events behind a place as they come, to the job's end; None where nothing came for a while.

        Ends early where the gateway is to stop; raises Problem (401) where the key was revoked, Unavailable where the
        database is away.
        """
        until, ended = asyncio.get_running_loop().time() + STREAM_SECONDS, False
        with self.watch.follow(job_id, key) as watcher:
            watcher.stamp = await self.watch.looks.submit(job_id)
            while True:
                over = watcher.is_over  # known before the look, so that nothing comes behind what it finds
                events = await self.read(job_id, after)
                for event in events:
                    yield event
                if events:
                    after, ended = read_place(events[-1].id) or after, events[-1].is_end
                if len(events) == PAGE or are_large(events):
                    continue
                if over or ended:
                    return
                if self.watch.closing or asyncio.get_running_loop().time() > until:
                    return
                while not await has_changed(watcher, self.heartbeat):
                    yield None
                    if asyncio.get_running_loop().time() > until:
                        return
                watcher.check_key()
