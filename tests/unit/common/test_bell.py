"""Rings for changed jobs."""

import asyncio
from typing import cast
from uuid import UUID

import pytest

from common import bell as module
from common import ids, messages, topology
from common.bell import Bell
from common.broker import Publisher
from common.errors import BrokerUnavailable
from common.messages import JobsChanged


class FakePublisher:
    """Takes one message at a time, once it may."""

    def __init__(self) -> None:
        self.link = self
        self.is_up = True
        self.told: list[list[UUID]] = []
        self.free = asyncio.Event()
        self.breaks = False

    async def tell(self, fanout: str, body: bytes) -> None:
        assert fanout == topology.CHANGES
        message = messages.decode(body)
        assert isinstance(message, JobsChanged)
        self.told.append(message.job_ids)
        await self.free.wait()
        if self.breaks:
            raise BrokerUnavailable


@pytest.fixture
def publisher() -> FakePublisher:
    return FakePublisher()


@pytest.fixture
def bell(publisher: FakePublisher) -> Bell:
    return Bell(cast("Publisher", publisher))


async def finish(bell: Bell, publisher: FakePublisher) -> None:
    publisher.free.set()
    assert bell.ringing is not None
    await asyncio.wait_for(bell.ringing, 5)


async def test_while_one_ring_is_on_its_way_the_next_gathers(bell: Bell, publisher: FakePublisher) -> None:
    first, *others = jobs = [ids.new() for _ in range(4)]
    bell.ring([first])
    await asyncio.sleep(0)
    for job in (*others, others[0]):
        bell.ring([job])
    await finish(bell, publisher)
    assert publisher.told == [[first], others]
    bell.ring(jobs)
    await finish(bell, publisher)
    assert publisher.told[2:] == [jobs]


async def test_a_message_has_a_bound(bell: Bell, publisher: FakePublisher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TOGETHER", 2)
    monkeypatch.setattr(module, "WAITING", 3)
    jobs = [ids.new() for _ in range(5)]
    bell.ring(jobs[:4])
    bell.ring(jobs[4:])  # there is no room
    await finish(bell, publisher)
    assert publisher.told == [jobs[:2], jobs[2:4]]


async def test_nothing_gathers_while_the_broker_is_away(bell: Bell, publisher: FakePublisher) -> None:
    publisher.is_up = False
    bell.ring([ids.new()])
    assert (bell.waiting, bell.ringing) == ({}, None)


async def test_what_is_lost_is_not_repeated(bell: Bell, publisher: FakePublisher) -> None:
    publisher.breaks = True
    bell.ring([ids.new()])
    await asyncio.sleep(0)
    bell.ring([ids.new()])
    await finish(bell, publisher)
    assert (len(publisher.told), bell.waiting) == (1, {})


async def test_nobody_is_told_where_nobody_listens(publisher: FakePublisher) -> None:
    listening: list[bool] = []
    bell = Bell(cast("Publisher", publisher), lambda: bool(listening))
    bell.ring([ids.new()])
    assert (bell.waiting, bell.ringing) == ({}, None)
    listening.append(True)
    job = ids.new()
    bell.ring([job])
    await finish(bell, publisher)
    assert publisher.told == [[job]]
