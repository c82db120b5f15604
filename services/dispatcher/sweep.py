"""What time brings about: doorbells fall due, jobs expire, dispatchers die. Any instance sweeps."""

import asyncio

from common.errors import Unavailable
from common.jobs import Failure, Status
from common.logs import Log
from common.outbox import Outbox
from services.dispatcher import retry
from services.dispatcher.record import Recorder
from services.dispatcher.store import Store

BATCH = 200
ABANDONED = Failure("worker_lost", "the worker that ran the attempt was lost", True)

log = Log("sweep")


class Sweeper:
    def __init__(self, store: Store, recorder: Recorder, outbox: Outbox, interval: float) -> None:
        self.store = store
        self.recorder = recorder
        self.outbox = outbox
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
        expired = await self.store.find_expired(BATCH)
        await asyncio.gather(*(self.recorder.expire(job, now) for job, now in expired))
        abandoned = await self.store.find_abandoned(BATCH)
        outcome = retry.Attempted(ABANDONED)
        await asyncio.gather(
            *(
                self.recorder.cancel(job, now, job.row.traceparent)
                if job.row.status is Status.CANCELING
                else self.recorder.settle(job, outcome, now, job.row.traceparent)
                for job, now in abandoned
            )
        )
        rows = await self.store.ring_due(BATCH)
        self.outbox.announce(rows)
        return BATCH in (len(expired), len(abandoned), len(rows))
