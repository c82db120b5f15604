"""Many doorbells at once: in waves, and no more of them in memory than may be."""

import asyncio
from typing import Any, cast

import pytest

from common import ids
from common.broker import Publisher
from common.database import Database
from common.jobs import Priority
from common.outbox import CROWD, MOST_WAITING, WAVE, Outbox, OutboxRow, ring_job

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"


class FakePublisher:
    """Has each message once it is let."""

    def __init__(self) -> None:
        self.link = self
        self.is_up = True
        self.let = asyncio.Event()
        self.begun = 0
        self.in_wave = asyncio.Event()

    async def publish(self, *_: object, **__: object) -> None:
        self.begun += 1
        if self.begun == WAVE:
            self.in_wave.set()
        await self.let.wait()


class FakeDatabase:
    async def fetch(self, *_: object) -> list[Any]:
        return []


@pytest.fixture
def publisher() -> FakePublisher:
    return FakePublisher()


@pytest.fixture
def outbox(publisher: FakePublisher) -> Outbox:
    return Outbox(cast("Database", FakeDatabase()), cast("Publisher", publisher))


def ring(count: int) -> list[OutboxRow]:
    return [ring_job(ids.new(), Priority.NORMAL, "echo", TRACE) for _ in range(count)]


async def test_many_go_in_waves_and_tell_that_they_wait(outbox: Outbox, publisher: FakePublisher) -> None:
    announcing = asyncio.create_task(outbox.announce_many(ring(CROWD + 1)))
    await asyncio.wait_for(publisher.in_wave.wait(), 5)
    assert (publisher.begun, outbox.is_crowded) == (WAVE, True)
    publisher.let.set()
    await asyncio.wait_for(announcing, 5)
    assert (publisher.begun, outbox.waiting, outbox.is_crowded) == (CROWD + 1, 0, False)
    await outbox.drain(5)


async def test_what_is_too_much_is_left_to_the_relay(outbox: Outbox, publisher: FakePublisher) -> None:
    announcing = asyncio.create_task(outbox.announce_many(ring(MOST_WAITING)))
    await asyncio.wait_for(publisher.in_wave.wait(), 5)
    await asyncio.wait_for(outbox.announce_many(ring(1)), 5)
    assert (publisher.begun, outbox.waiting) == (WAVE, MOST_WAITING)
    announcing.cancel()
    await asyncio.wait([announcing], timeout=5)
    assert outbox.waiting == 0
    publisher.let.set()
    await outbox.drain(5)
