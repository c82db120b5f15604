"""Fakes for tests of waiters."""

import asyncio
from collections.abc import Collection, Sequence
from uuid import UUID

from common import ids
from common.errors import BrokerUnavailable, DatabaseUnavailable
from common.job_states import Status
from common.rabbitmq import messages
from common.rabbitmq.messages import JobsChanged, Message
from services.gateway.auth.store import Key
from services.gateway.events.store import EventStore, JobSnapshot
from services.gateway.events.waiters import Waiters
from tests.unit.fake_publisher import FakePublisher

JOB, OTHER = ids.new(), ids.new()
KEY, STRANGER = Key(ids.new(), ids.new()), Key(ids.new(), ids.new())
LONG = 30.0  # seconds


class FakeStore(EventStore):
    """Snapshots of jobs, and the number of jobs in each query."""

    def __init__(self) -> None:
        self.jobs = {JOB: JobSnapshot(Status.QUEUED, 0, 0), OTHER: JobSnapshot(Status.QUEUED, 0, 0)}
        self.queries: list[int] = []
        self.is_down = False
        self.revoked: set[UUID] = set()

    async def find_snapshots(self, jobs: Sequence[UUID]) -> dict[UUID, JobSnapshot]:
        self.queries.append(len(jobs))
        if self.is_down:
            raise DatabaseUnavailable
        return {job: self.jobs[job] for job in jobs if job in self.jobs}

    async def find_revoked(self, keys: Collection[UUID]) -> set[UUID]:
        if self.is_down:
            raise DatabaseUnavailable
        return self.revoked & set(keys)


class RecordedPublisher(FakePublisher):
    """Records what is published, or is down."""

    def __init__(self) -> None:
        super().__init__()
        self.published: list[tuple[str, Message]] = []
        self.is_down = False

    async def publish_unconfirmed(self, exchange: str, body: bytes) -> None:
        if self.is_down:
            raise BrokerUnavailable
        self.published.append((exchange, messages.decode(body)))


async def run_pending() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def wake(waiters: Waiters, *jobs: UUID) -> None:
    await waiters.handle(JobsChanged(list(jobs)), None)
    await run_pending()
