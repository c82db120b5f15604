"""Who waits for a change of which job; woken by the broker, or by a slow look at all of them together."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from uuid import UUID

from common.batching import Batcher
from common.errors import Reject, Unavailable
from common.jobs import TERMINAL
from common.logs import Log
from common.messages import JobsChanged, Message
from services.gateway import metrics
from services.gateway.attention import Attention
from services.gateway.auth import refuse
from services.gateway.errors import LATER, Problem
from services.gateway.store import Key
from services.gateway.watch_store import Stamp, WatchStore

POLL_SECONDS = 15.0  # between looks at all that is watched: a ring may be lost
AGAIN_SECONDS = (0.2, 0.8)  # before each look for what changed while dispatchers did not know yet that somebody waits
BLIND_SECONDS = 2.0  # the same while the broker is away
MAX_WATCHERS = 20_000  # a tenant may have as many as are free: alone half of them, the next a quarter, and so on
LOOK = 1000  # jobs in one statement
KEY_SECONDS = 5.0  # between looks at the keys of all who wait

log = Log("watch")


class Watcher:
    """Somebody who waits for changes of a job.

    `stamp` is how it was when last seen; None before, or where it is gone.
    """

    def __init__(self, job_id: UUID, key_id: UUID) -> None:
        self.job_id = job_id
        self.key_id = key_id
        self.revoked = False
        self.stamp: Stamp | None = None
        self.changed = asyncio.Event()

    def check_key(self) -> None:
        """Raises Problem (401) where it was found to be revoked."""
        if self.revoked:
            raise refuse("this API key was revoked")

    @property
    def is_over(self) -> bool:
        return self.stamp is None or self.stamp.status in TERMINAL


class Watch:
    def __init__(self, store: WatchStore, attention: Attention, hears: Callable[[], bool]) -> None:
        """`hears` tells whether we can ask for rings at the moment, and they arrive."""
        self.store = store
        self.attention = attention
        self.asking: asyncio.Task[None] | None = None
        self.hears = hears
        self.watched: dict[UUID, set[Watcher]] = {}
        self.count = 0
        self.held: Counter[UUID] = Counter()  # watchers of each tenant
        self.closing = False
        self.looks: Batcher[UUID, Stamp | None] = Batcher(
            self.look, name="watched jobs", limit=LOOK, bound=2 * MAX_WATCHERS
        )

    async def look(self, jobs: list[UUID]) -> list[Stamp | None]:
        found = await self.store.find_stamps(jobs)
        return [found.get(job) for job in jobs]

    def check_room(self, tenant_id: UUID) -> None:
        """Raises Problem: 503 where too many wait in this process, 429 where too many of them are the tenant's."""
        free = MAX_WATCHERS - self.count
        if free <= 0:
            text = "too many are waiting here; try again soon, or poll"
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "overloaded", text, headers=LATER)
        if self.held[tenant_id] >= free:
            text = f"{self.held[tenant_id]} requests of this tenant are waiting here; try again soon, or poll"
            raise Problem(HTTPStatus.TOO_MANY_REQUESTS, "too_many_waiting", text, headers=LATER)

    @contextmanager
    def follow(self, job_id: UUID, key: Key) -> Iterator[Watcher]:
        """Raises Problem (429, 503) where there is no room."""
        self.check_room(key.tenant_id)
        watcher = Watcher(job_id, key.id)
        self.watched.setdefault(job_id, set()).add(watcher)
        self.count += 1
        self.held[key.tenant_id] += 1
        metrics.watchers.set(self.count)
        if not self.attention.is_sure:
            self.ask()
        try:
            yield watcher
        finally:
            self.count -= 1
            metrics.watchers.set(self.count)
            self.held[key.tenant_id] -= 1
            if not self.held[key.tenant_id]:
                del self.held[key.tenant_id]
            self.watched[job_id].discard(watcher)
            if not self.watched[job_id]:
                del self.watched[job_id]

    async def wait(self, job_id: UUID, key: Key, seconds: float) -> None:
        """Returns once the job has ended, or so many seconds have passed, or the gateway is to stop.

        Raises Problem: 401 soon after the key was revoked, 429 or 503 where there is no room.
        """
        with self.follow(job_id, key) as watcher:
            try:
                async with asyncio.timeout(seconds):
                    watcher.stamp = await self.looks.submit(job_id)
                    while not (watcher.is_over or self.closing):
                        await watcher.changed.wait()
                        watcher.changed.clear()
                        watcher.check_key()
            except TimeoutError:
                return

    async def handle(self, message: Message, _traceparent: str | None) -> None:
        if not isinstance(message, JobsChanged):
            raise Reject(f"a {type(message).__name__} is no ring")
        await self.refresh(job for job in message.job_ids if job in self.watched)

    async def refresh(self, jobs: Iterable[UUID]) -> None:
        """Wakes those whose job is no longer as they saw it."""
        asked = list(jobs)
        try:
            stamps = await asyncio.gather(*(self.looks.submit(job) for job in asked))
        except Unavailable as error:
            log.warning("watch.waits", jobs=len(asked), error=error)
            return
        for job, stamp in zip(asked, stamps, strict=True):
            for watcher in self.watched.get(job, ()):
                if watcher.stamp != stamp:
                    watcher.stamp = stamp
                    watcher.changed.set()

    async def poll(self) -> None:
        """Looks by itself, slowly, until cancelled."""
        while True:
            await asyncio.sleep(POLL_SECONDS if self.hears() else BLIND_SECONDS)
            if self.watched:
                self.ask()
                await self.refresh(list(self.watched))

    def ask(self) -> None:
        """Asks for rings, without waiting."""
        if not self.closing and (self.asking is None or self.asking.done()):
            self.asking = asyncio.create_task(self.catch_up())

    async def catch_up(self) -> None:
        """Asks for rings and, where nobody may have rung so far, looks for what changed before it was heard."""
        sure = self.attention.is_sure
        if await self.attention.ask() and not sure:
            for pause in AGAIN_SECONDS:
                await asyncio.sleep(pause)
                await self.refresh(list(self.watched))

    async def watch_keys(self) -> None:
        """Looks for revoked ones, until cancelled: whoever waits for nothing to happen would never be asked again."""
        while True:
            await asyncio.sleep(KEY_SECONDS)
            await self.drop_revoked()

    async def drop_revoked(self) -> None:
        everybody = [watcher for watchers in self.watched.values() for watcher in watchers]
        if not everybody:
            return
        try:
            revoked = await self.store.find_revoked({watcher.key_id for watcher in everybody})
        except Unavailable as error:
            log.warning("watch.keys_unknown", error=error)
            return
        for watcher in everybody:
            if watcher.key_id in revoked:
                watcher.revoked = True
                watcher.changed.set()

    def close(self) -> None:
        """Everybody is answered with what there is."""
        self.closing = True
        if self.asking is not None:
            self.asking.cancel()
        for watchers in self.watched.values():
            for watcher in watchers:
                watcher.changed.set()
