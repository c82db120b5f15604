"""Publishing many rows: in chunks, with bounded memory."""

import asyncio
from typing import Any, cast

import pytest

from common import ids
from common.jobs import Priority
from common.outbox import BUSY_ROWS, CHUNK_SIZE, MAX_WAITING, Outbox, OutboxRow, job_wake_up
from common.postgres.database import Database
from common.rabbitmq.publisher import Publisher

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"


class FakePublisher:
    """Confirms messages once `free` is set."""

    def __init__(self) -> None:
        self.connection = self
        self.is_up = True
        self.free = asyncio.Event()
        self.started = 0
        self.first_chunk = asyncio.Event()

    async def publish(self, *_: object, **__: object) -> None:
        self.started += 1
        if self.started == CHUNK_SIZE:
            self.first_chunk.set()
        await self.free.wait()


class FakeDatabase:
    async def fetch(self, *_: object) -> list[Any]:
        return []


@pytest.fixture
def publisher() -> FakePublisher:
    return FakePublisher()


@pytest.fixture
def outbox(publisher: FakePublisher) -> Outbox:
    return Outbox(cast("Database", FakeDatabase()), cast("Publisher", publisher))


def make_rows(count: int) -> list[OutboxRow]:
    return [job_wake_up(ids.new(), Priority.NORMAL, "echo", TRACE) for _ in range(count)]


async def test_many_rows_are_published_in_chunks(outbox: Outbox, publisher: FakePublisher) -> None:
    announcing = asyncio.create_task(outbox.announce_many(make_rows(BUSY_ROWS + 1)))
    await asyncio.wait_for(publisher.first_chunk.wait(), 5)
    assert (publisher.started, outbox.is_busy) == (CHUNK_SIZE, True)
    publisher.free.set()
    await asyncio.wait_for(announcing, 5)
    assert (publisher.started, outbox._waiting, outbox.is_busy) == (BUSY_ROWS + 1, 0, False)
    await outbox.drain(5)


async def test_the_relay_publishes_rows_beyond_the_limit(outbox: Outbox, publisher: FakePublisher) -> None:
    announcing = asyncio.create_task(outbox.announce_many(make_rows(MAX_WAITING)))
    await asyncio.wait_for(publisher.first_chunk.wait(), 5)
    await asyncio.wait_for(outbox.announce_many(make_rows(1)), 5)
    assert (publisher.started, outbox._waiting) == (CHUNK_SIZE, MAX_WAITING)
    announcing.cancel()
    await asyncio.wait([announcing], timeout=5)
    assert outbox._waiting == 0
    publisher.free.set()
    await outbox.drain(5)
