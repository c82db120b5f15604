"""What those who wait for a job are tested with."""

import asyncio
from collections.abc import Collection, Sequence
from uuid import UUID

from common import ids, messages
from common.errors import BrokerUnavailable, DatabaseUnavailable
from common.jobs import Status
from common.messages import JobsChanged, Message
from services.gateway.store import Key
from services.gateway.watch import Watch
from services.gateway.watch_store import Stamp

JOB, OTHER = ids.new(), ids.new()
KEY, STRANGER = Key(ids.new(), ids.new()), Key(ids.new(), ids.new())
LONG = 30.0  # seconds


class FakeStore:
    """Jobs by id, and how often it was asked for how many."""

    def __init__(self) -> None:
        self.jobs = {JOB: Stamp(Status.QUEUED, 0, 0), OTHER: Stamp(Status.QUEUED, 0, 0)}
        self.asked: list[int] = []
        self.away = False
        self.revoked: set[UUID] = set()

    async def find_stamps(self, jobs: Sequence[UUID]) -> dict[UUID, Stamp]:
        self.asked.append(len(jobs))
        if self.away:
            raise DatabaseUnavailable
        return {job: self.jobs[job] for job in jobs if job in self.jobs}

    async def find_revoked(self, keys: Collection[UUID]) -> set[UUID]:
        if self.away:
            raise DatabaseUnavailable
        return self.revoked & set(keys)


class FakePublisher:
    """Notes what is told to whom, or is away."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Message]] = []
        self.away = False

    async def tell(self, fanout: str, body: bytes) -> None:
        if self.away:
            raise BrokerUnavailable
        self.told.append((fanout, messages.decode(body)))


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def ring(watch: Watch, *jobs: UUID) -> None:
    await watch.handle(JobsChanged(list(jobs)), None)
    await settle()
