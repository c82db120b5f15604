"""Tells every gateway which jobs have changed, so that nobody who waits for one has to ask the database."""

import asyncio
from collections.abc import Callable, Iterable
from itertools import islice
from uuid import UUID

from common import messages, topology
from common.broker import Publisher
from common.errors import BrokerUnavailable
from common.messages import JobsChanged

TOGETHER = 500  # jobs in one message
REST_SECONDS = 0.005  # after each ring, which meanwhile gathers the next one's jobs
WAITING = 10_000  # jobs; those above are told of by nobody, and found by who looks


class Bell:
    """Rings once for all jobs that changed while the ring before was on its way, and a moment longer.

    It may be lost: it carries nothing.
    """

    def __init__(self, publisher: Publisher, is_wanted: Callable[[], bool] = lambda: True) -> None:
        """`is_wanted` tells whether anybody listens at the moment."""
        self.publisher = publisher
        self.is_wanted = is_wanted
        self.waiting: dict[UUID, None] = {}  # in order
        self.ringing: asyncio.Task[None] | None = None

    def ring(self, jobs: Iterable[UUID]) -> None:
        """For changes just committed, without waiting."""
        if not self.is_wanted() or not self.publisher.link.is_up or len(self.waiting) >= WAITING:
            return
        self.waiting.update(dict.fromkeys(jobs))
        if self.waiting and (self.ringing is None or self.ringing.done()):
            self.ringing = asyncio.create_task(self.run())

    async def run(self) -> None:
        while self.waiting:
            jobs = list(islice(self.waiting, TOGETHER))
            for job in jobs:
                del self.waiting[job]
            try:
                await self.publisher.tell(topology.CHANGES, messages.encode(JobsChanged(jobs)))
            except BrokerUnavailable:
                self.waiting.clear()
            await asyncio.sleep(REST_SECONDS)
