"""Registers requests that wait for changes of jobs.

Messages wake them. A slow poll finds the changes whose message was lost.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from uuid import UUID

from prometheus_client import Gauge

from common.errors import Unavailable, UnknownMessage
from common.job_states import TERMINAL
from common.postgres.batcher import Batcher
from common.rabbitmq.messages import WAITERS_SECONDS, JobsChanged, Message
from common.telemetry.logs import Log
from services.gateway.auth.authentication import unauthorized
from services.gateway.auth.store import Key
from services.gateway.events.followers import Followers
from services.gateway.events.store import EventStore, JobSnapshot
from services.gateway.events.waiter_presence import WaiterPresence
from services.gateway.http.problems import LATER, Problem

# The poll finds changes whose message was lost. It is quicker while the broker is down.
POLL_SECONDS, OFFLINE_POLL_SECONDS = WAITERS_SECONDS, 2.0
# Pauses before the checks after an announcement. The dispatchers do not get it at once.
RECHECK_SECONDS = (0.2, 0.8)
# A tenant may have as many as are still free: the first tenant a half, the second a quarter, …
MAX_WAITERS = 20_000
MAX_JOBS_PER_QUERY = 1000
KEY_CHECK_SECONDS = 5.0  # between checks for revoked keys

waiting = Gauge("charonia_waiters", "Requests, streams and WebSockets that wait for a job now.")

log = Log("waiters")


class Waiter:
    """A request that waits for changes of a job, or for events of a tenant: `job_id` is then the tenant's.

    `snapshot` is the job as last seen: None before the first read, and once the job is deleted.
    """

    def __init__(self, job_id: UUID, key_id: UUID) -> None:
        self.job_id = job_id
        self.key_id = key_id
        self.revoked = False
        self.snapshot: JobSnapshot | None = None
        self.changed = asyncio.Event()

    def check_key(self) -> None:
        """Raises Problem (401) if the key was revoked."""
        if self.revoked:
            raise unauthorized("this API key was revoked")

    @property
    def is_over(self) -> bool:
        """Whether no more changes can come."""
        return self.snapshot is None or self.snapshot.status in TERMINAL


class Waiters:
    """All waiters of this process, by job."""

    def __init__(self, store: EventStore, presence: WaiterPresence, is_connected: Callable[[], bool]) -> None:
        """`is_connected` returns whether announcements can be sent now, and wake-ups arrive."""
        self._store = store
        self._presence = presence
        self._is_connected = is_connected
        self._announcing: asyncio.Task[None] | None = None
        self._by_job: dict[UUID, set[Waiter]] = {}
        self._followers = Followers()
        self._per_tenant: Counter[UUID] = Counter()
        self.count = 0
        self.closing = False
        self._snapshots: Batcher[UUID, JobSnapshot | None] = Batcher(
            self._find_snapshots, name="job snapshots", limit=MAX_JOBS_PER_QUERY, max_waiting=2 * MAX_WAITERS
        )

    async def find_snapshot(self, job_id: UUID) -> JobSnapshot | None:
        """Return the job as it is now, or None if it is deleted. Concurrent calls share one statement."""
        return await self._snapshots.submit(job_id)

    async def _find_snapshots(self, jobs: list[UUID]) -> list[JobSnapshot | None]:
        found = await self._store.find_snapshots(jobs)
        for job in jobs:
            if job in self._by_job:
                self._followers.note(job, found[job].twin if job in found else None)
        return [found.get(job) for job in jobs]

    def check_capacity(self, tenant_id: UUID) -> None:
        """Raises Problem: 503 with too many waiters in this process, 429 with too many of this tenant."""
        free = MAX_WAITERS - self.count
        if free <= 0:
            text = "too many requests wait on this gateway; try again soon, or poll the job"
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "overloaded", text, headers=LATER)
        if self._per_tenant[tenant_id] >= free:
            text = (
                f"{self._per_tenant[tenant_id]} requests of this tenant wait already; try again soon, or poll the job"
            )
            raise Problem(HTTPStatus.TOO_MANY_REQUESTS, "too_many_waiting", text, headers=LATER)

    @contextmanager
    def register(self, job_id: UUID, key: Key) -> Iterator[Waiter]:
        """Register a waiter for the duration of the block. Raises Problem (429, 503) without capacity."""
        self.check_capacity(key.tenant_id)
        waiter = Waiter(job_id, key.id)
        self._add(waiter, key.tenant_id)
        if not self._presence.is_fresh:
            self._announce()
        try:
            yield waiter
        finally:
            self._remove(waiter, key.tenant_id)

    def _add(self, waiter: Waiter, tenant_id: UUID) -> None:
        self._by_job.setdefault(waiter.job_id, set()).add(waiter)
        self._per_tenant[tenant_id] += 1
        self.count += 1
        waiting.set(self.count)

    def _remove(self, waiter: Waiter, tenant_id: UUID) -> None:
        self.count -= 1
        waiting.set(self.count)
        self._per_tenant[tenant_id] -= 1
        if not self._per_tenant[tenant_id]:
            del self._per_tenant[tenant_id]
        self._by_job[waiter.job_id].discard(waiter)
        if not self._by_job[waiter.job_id]:
            del self._by_job[waiter.job_id]
            self._followers.forget(waiter.job_id)

    async def wait(self, job_id: UUID, key: Key, seconds: float) -> None:
        """Return when the job has ended, after `seconds`, or when the gateway stops.

        Raises Problem: 401 soon after the key is revoked, 429 or 503 without capacity.
        """
        with self.register(job_id, key) as waiter:
            try:
                async with asyncio.timeout(seconds):
                    waiter.snapshot = await self.find_snapshot(job_id)
                    while not (waiter.is_over or self.closing):
                        await waiter.changed.wait()
                        waiter.changed.clear()
                        waiter.check_key()
            except TimeoutError:
                return

    async def handle(self, message: Message, _traceparent: str | None) -> None:
        """Handle a JobsChanged message: wake the waiters of its jobs."""
        if not isinstance(message, JobsChanged):
            raise UnknownMessage(f"a {type(message).__name__} is no change of jobs")
        changed = dict.fromkeys(job for job in message.job_ids if job in self._by_job)
        for twin in message.job_ids:
            changed |= dict.fromkeys(self._followers.find(twin))
        await self._wake_changed(changed)

    async def _wake_changed(self, jobs: Iterable[UUID]) -> None:
        """Wake the waiters whose job differs from their snapshot."""
        ids = list(jobs)
        try:
            snapshots = await asyncio.gather(*(self.find_snapshot(job) for job in ids))
        except Unavailable as error:
            log.warning("waiters.refresh_failed", jobs=len(ids), error=error)
            return
        for job, snapshot in zip(ids, snapshots, strict=True):
            for waiter in self._by_job.get(job, ()):
                if waiter.snapshot != snapshot:
                    waiter.snapshot = snapshot
                    waiter.changed.set()

    def wake(self, tenant_id: UUID) -> None:
        """Wake the waiters for events of a tenant."""
        for waiter in self._by_job.get(tenant_id, ()):
            waiter.changed.set()

    async def poll(self) -> None:
        """Announce and check all waiters at intervals, until cancelled."""
        while True:
            await asyncio.sleep(POLL_SECONDS if self._is_connected() else OFFLINE_POLL_SECONDS)
            if self._by_job:
                self._announce()
                await self._wake_changed(list(self._by_job))

    def _announce(self) -> None:
        """Announce the waiters in the background, unless this already runs."""
        if not self.closing and (self._announcing is None or self._announcing.done()):
            self._announcing = asyncio.create_task(self._announce_and_recheck())

    async def _announce_and_recheck(self) -> None:
        """Announce the waiters. If dispatchers did not know of any, check for changes that they did not publish."""
        was_fresh = self._presence.is_fresh
        if await self._presence.announce() and not was_fresh:
            for pause in RECHECK_SECONDS:
                await asyncio.sleep(pause)
                await self._wake_changed(list(self._by_job))

    async def poll_keys(self) -> None:
        """Check for revoked keys at intervals, until cancelled. A waiter without events is not authenticated again."""
        while True:
            await asyncio.sleep(KEY_CHECK_SECONDS)
            await self.wake_revoked()

    async def wake_revoked(self) -> None:
        """Mark and wake the waiters whose key was revoked."""
        waiters = [waiter for group in self._by_job.values() for waiter in group]
        if not waiters:
            return
        try:
            revoked = await self._store.find_revoked({waiter.key_id for waiter in waiters})
        except Unavailable as error:
            log.warning("waiters.key_check_failed", error=error)
            return
        for waiter in waiters:
            if waiter.key_id in revoked:
                waiter.revoked = True
                waiter.changed.set()

    def close(self) -> None:
        """Wake all waiters, so that they respond with the job as it is."""
        self.closing = True
        if self._announcing is not None:
            self._announcing.cancel()
        for group in self._by_job.values():
            for waiter in group:
                waiter.changed.set()
