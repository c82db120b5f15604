"""Notify every gateway which jobs and batches have changed, so that requests that wait need not ask the database."""

import asyncio
from collections.abc import Callable, Iterable
from itertools import islice
from uuid import UUID

from common.errors import BrokerUnavailable
from common.rabbitmq import messages, topology
from common.rabbitmq.messages import JobsChanged
from common.rabbitmq.publisher import Publisher

MAX_JOBS_PER_MESSAGE = 500
PAUSE_SECONDS = 0.005  # after each message, so that the next one gathers jobs
MAX_PENDING = 10_000  # jobs; more are not announced, and whoever waits for one asks the database in the end


class ChangePublisher:
    """Publishes one message for all jobs that changed while the one before was on its way, or shortly after it.

    The message may be lost: it carries no state.
    """

    def __init__(self, publisher: Publisher, has_waiters: Callable[[], bool] = lambda: True) -> None:
        """`has_waiters` says whether any gateway needs the messages at the moment."""
        self._publisher = publisher
        self._has_waiters = has_waiters
        self._pending: dict[UUID, None] = {}  # in order
        self._publishing: asyncio.Task[None] | None = None

    def notify(self, jobs: Iterable[UUID]) -> None:
        """Announce changes that were just committed. Return at once."""
        if not self._has_waiters() or not self._publisher.connection.is_up or len(self._pending) >= MAX_PENDING:
            return
        self._pending.update(dict.fromkeys(jobs))
        if self._pending and (self._publishing is None or self._publishing.done()):
            self._publishing = asyncio.create_task(self._publish_pending())

    async def _publish_pending(self) -> None:
        while self._pending:
            jobs = list(islice(self._pending, MAX_JOBS_PER_MESSAGE))
            for job in jobs:
                del self._pending[job]
            try:
                await self._publisher.publish_unconfirmed(topology.CHANGES_EXCHANGE, messages.encode(JobsChanged(jobs)))
            except BrokerUnavailable:
                self._pending.clear()
            await asyncio.sleep(PAUSE_SECONDS)
