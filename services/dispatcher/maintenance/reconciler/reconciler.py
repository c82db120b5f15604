"""Publishes wake-ups for queues whose jobs wait without a message, and fails jobs whose model is gone.

A wake-up is lost if a process dies after its commit, if the broker is away, or if the broker loses it. No row remembers
its wake-up.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from common.jobs.expire import find_unserved
from common.postgres.statements import Executor
from common.rabbitmq import topology
from common.rabbitmq.publisher import Publisher
from common.rabbitmq.wake_ups import WakeUp, WakeUpPublisher, job_wake_up
from common.telemetry.logs import Log
from common.telemetry.outage import Outage
from services.dispatcher import metrics
from services.dispatcher.maintenance.reconciler.announcements import Announcements
from services.dispatcher.maintenance.reconciler.store import Queue, WaitingQueue, find_waiting_queues
from services.dispatcher.results.result_recorder import ResultRecorder
from services.dispatcher.results.store import NotStored

INTERVAL_SECONDS = 0.5
FULL_SECONDS = 0.05  # after a round that could not send all that a queue lacks
# Before that, a job's own wake-up may still arrive. With the interval, no slot idles for over a second.
AGE_SECONDS = 0.5
REPEAT_SECONDS = 2.0  # before that, a wake-up that was sent for a job may still arrive
MAX_WAKE_UPS = 100  # for a queue in one round
MAX_UNSERVED = 200  # jobs in one round

log = Log("reconciler")


class Reconciler:
    """The leader reconciles. For a moment a former one may do it too: that repeats wake-ups, which is harmless."""

    def __init__(
        self,
        database: Executor,
        recorder: ResultRecorder,
        publisher: Publisher,
        wake_ups: WakeUpPublisher,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock` returns seconds."""
        self._database = database
        self._recorder = recorder
        self._publisher = publisher
        self._wake_ups = wake_ups
        self._announcements = Announcements(REPEAT_SECONDS, clock)
        self._last_tenants: dict[Queue, UUID] = {}  # whose jobs of a queue were announced last

    async def run(self) -> None:
        """Reconcile at intervals, and without waiting for old jobs when the broker is back, until cancelled."""
        age, outage = 0.0, Outage()
        while True:
            sent = 0
            with outage.tolerate("reconciler.unavailable", log, NotStored):
                sent = await self.reconcile(age) if self._publisher.connection.is_up else 0
                age = AGE_SECONDS if self._publisher.connection.is_up else 0.0
            await asyncio.sleep(FULL_SECONDS if sent >= MAX_WAKE_UPS else INTERVAL_SECONDS)

    async def reconcile(self, age: float) -> int:
        """Handle jobs that have been claimable for `age` seconds. Return the number of wake-ups.

        An age of 0 says that the broker may have lost all messages.
        """
        if age == 0:
            self._announcements.clear()
        queues = await find_waiting_queues(self._database, age, MAX_WAKE_UPS, self._last_tenants)
        waiting = {queue.key for queue in queues}
        self._last_tenants = {key: tenant for key, tenant in self._last_tenants.items() if key in waiting}
        due = [queue for queue in queues if queue.known and self._announcements.is_due(queue)]
        silent = await find_silent(due, self._publisher.count_ready)
        for queue in silent:
            self._announcements.note(queue)
            self._last_tenants[queue.key] = queue.last_tenant
        wake_ups = list_wake_ups(silent)
        await self._wake_ups.announce_many(wake_ups)  # the next round counts them
        if wake_ups:
            metrics.wake_ups_repeated.inc(len(wake_ups))
            log.info("reconciler.wake_ups_repeated", count=len(wake_ups))
        await self._fail_unserved([queue.model for queue in queues if not queue.known])
        return len(wake_ups)

    async def _fail_unserved(self, models: Sequence[str]) -> None:
        if models:
            unserved = await find_unserved(self._database, models, MAX_UNSERVED)
            await asyncio.gather(*(self._recorder.fail_unserved(job, now) for job, now in unserved))


async def find_silent(
    queues: Sequence[WaitingQueue], count_ready: Callable[[Sequence[str]], Awaitable[dict[str, int]]]
) -> list[WaitingQueue]:
    """Return the waiting queues without a ready message.

    `count_ready` returns the number of ready messages of each existing queue.
    """
    if not queues:
        return []
    ready = await count_ready([topology.job_queue(queue.model, queue.priority) for queue in queues])
    return [queue for queue in queues if ready.get(topology.job_queue(queue.model, queue.priority)) == 0]


def list_wake_ups(queues: Sequence[WaitingQueue]) -> list[WakeUp]:
    """Return a wake-up for each waiting job."""
    return [
        job_wake_up(job, queue.priority, queue.model, traceparent)
        for queue in queues
        for job, traceparent in zip(queue.jobs, queue.traceparents, strict=True)
    ]
