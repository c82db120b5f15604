"""What time brings about: doorbells fall due, jobs expire, dispatchers die. Any instance sweeps."""

import asyncio
import time
from collections.abc import Callable
from datetime import datetime

from common import job_spans
from common.errors import Unavailable
from common.jobs import Failure, Status
from common.logs import Log
from common.outbox import Outbox
from services.dispatcher import metrics, retry
from services.dispatcher.record import Recorder
from services.dispatcher.store import ClaimedJob, Store

BATCH = 200
ABANDONED = Failure("worker_lost", "the worker that ran the attempt was lost", True)

log = Log("sweep")


class Grace:
    """Whether lapsed leases tell of their dispatchers: not while the database may have kept these from renewing.

    Renewed at most a third of a lease before an outage, and again at most a third after it, a lease outlives a
    silence of a third. After a longer one, and after its own start, a sweeper spares all for the length of a lease.
    """

    def __init__(self, lease: float, interval: float, clock: Callable[[], float] = time.monotonic) -> None:
        """In seconds; `interval` is between two sweeps, each of which writes."""
        self.lease = lease
        self.silence = max(lease / 3, 2 * interval)
        self.clock = clock
        self.written_at = float("-inf")
        self.began_at = float("-inf")

    def note_write(self) -> None:
        """The database has just taken one."""
        now = self.clock()
        if now - self.written_at > self.silence:
            self.began_at = now
            log.info("sweep.spares_leases", seconds=self.lease)
        self.written_at = now

    @property
    def is_over(self) -> bool:
        now = self.clock()
        return now - self.written_at <= self.silence and now - self.began_at >= self.lease


class Sweeper:
    def __init__(self, store: Store, recorder: Recorder, outbox: Outbox, grace: Grace, interval: float) -> None:
        self.store = store
        self.recorder = recorder
        self.outbox = outbox
        self.grace = grace
        self.interval = interval

    async def run(self) -> None:
        """Sweeps every `interval` seconds, at once again after a full batch, until cancelled."""
        while True:
            try:
                full = await self.sweep()
            except Unavailable as error:
                log.warning("sweep.waits", error=error)
                full = False
            if not full:
                await asyncio.sleep(self.interval)

    async def sweep(self) -> bool:
        """One batch of each kind; whether any of them was full."""
        due = await self.store.ring_due(BATCH)
        self.outbox.announce(due.rung)
        self.grace.note_write()  # a server that is read only would have refused it
        abandoned = await self.find_abandoned()
        metrics.leases_lapsed.inc(len(abandoned))
        await asyncio.gather(*(self.reclaim(job, now) for job, now in abandoned))
        if due.stranded:
            stranded = await self.store.find_queued(due.stranded)
            await asyncio.gather(*(self.recorder.strand(job, now) for job, now in stranded))
        expired = await self.store.find_expired(BATCH)
        await asyncio.gather(*(self.recorder.expire(job, now) for job, now in expired))
        return BATCH in (len(due.rung) + len(due.stranded), len(abandoned), len(expired))

    async def reclaim(self, job: ClaimedJob, now: datetime) -> None:
        """Settles an attempt whose worker is lost, and with it most likely the attempt's own spans."""
        assert job.row.started_at is not None, "a claimed job has started"
        with job_spans.since("lost", job.row, job.row.started_at) as trace:
            if job.row.status is Status.CANCELING:
                await self.recorder.cancel(job, now, trace)
            else:
                await self.recorder.settle(job, retry.Attempted(ABANDONED), now, trace)

    async def find_abandoned(self) -> list[tuple[ClaimedJob, datetime]]:
        """Running jobs whose dispatcher is gone."""
        found = await self.store.find_abandoned(BATCH)
        return found if self.grace.is_over else []  # asked after the answer, which may have hung for long
