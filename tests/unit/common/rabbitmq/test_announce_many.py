"""Publishing many wake-ups: in chunks, with bounded memory."""

import asyncio

import pytest

from common import ids
from common.job_states import Priority
from common.rabbitmq.messages import QueuedJob
from common.rabbitmq.wake_ups import CHUNK_SIZE, MAX_WAITING, WakeUp, WakeUpPublisher, job_wake_up
from tests.unit.clock import LATE
from tests.unit.fake_publisher import FakePublisher

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
JOB = QueuedJob(ids.new(), ids.new())


class SlowPublisher(FakePublisher):
    """Confirms messages once `free` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.free = asyncio.Event()
        self.started = 0
        self.first_chunk = asyncio.Event()

    async def publish(self, *_: object, **__: object) -> None:
        self.started += 1
        if self.started == CHUNK_SIZE:
            self.first_chunk.set()
        await self.free.wait()


@pytest.fixture
def publisher() -> SlowPublisher:
    return SlowPublisher()


@pytest.fixture
def wake_ups(publisher: SlowPublisher) -> WakeUpPublisher:
    return WakeUpPublisher(publisher)


def make(count: int) -> list[WakeUp]:
    return [job_wake_up(JOB, Priority.NORMAL, "echo", TRACE) for _ in range(count)]


async def test_many_wake_ups_are_published_in_chunks(wake_ups: WakeUpPublisher, publisher: SlowPublisher) -> None:
    announcing = asyncio.create_task(wake_ups.announce_many(make(2 * CHUNK_SIZE + 1)))
    await asyncio.wait_for(publisher.first_chunk.wait(), LATE)
    assert publisher.started == CHUNK_SIZE
    publisher.free.set()
    await asyncio.wait_for(announcing, LATE)
    assert (publisher.started, wake_ups._waiting) == (2 * CHUNK_SIZE + 1, 0)
    await wake_ups.drain(5)


async def test_wake_ups_beyond_the_limit_are_left_to_the_reconciler(
    wake_ups: WakeUpPublisher, publisher: SlowPublisher
) -> None:
    announcing = asyncio.create_task(wake_ups.announce_many(make(MAX_WAITING)))
    await asyncio.wait_for(publisher.first_chunk.wait(), LATE)
    await asyncio.wait_for(wake_ups.announce_many(make(1)), LATE)
    assert (publisher.started, wake_ups._waiting) == (CHUNK_SIZE, MAX_WAITING)
    announcing.cancel()
    await asyncio.wait([announcing], timeout=5)
    assert wake_ups._waiting == 0
    publisher.free.set()
    await wake_ups.drain(5)
