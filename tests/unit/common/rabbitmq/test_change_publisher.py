"""Publishing changes of jobs."""

import asyncio
from uuid import UUID

import pytest

from common import ids
from common.errors import BrokerUnavailable
from common.rabbitmq import change_publisher as module
from common.rabbitmq import messages, topology
from common.rabbitmq.change_publisher import ChangePublisher
from common.rabbitmq.messages import JobsChanged
from tests.unit.clock import LATE
from tests.unit.fake_publisher import FakePublisher


class SlowPublisher(FakePublisher):
    """Confirms messages once `free` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.published: list[list[UUID]] = []
        self.free = asyncio.Event()
        self.fails = False

    async def publish_unconfirmed(self, exchange: str, body: bytes) -> None:
        assert exchange == topology.CHANGES_EXCHANGE
        message = messages.decode(body)
        assert isinstance(message, JobsChanged)
        self.published.append(message.job_ids)
        await self.free.wait()
        if self.fails:
            raise BrokerUnavailable


@pytest.fixture
def publisher() -> SlowPublisher:
    return SlowPublisher()


@pytest.fixture
def changes(publisher: SlowPublisher) -> ChangePublisher:
    return ChangePublisher(publisher)


async def finish(changes: ChangePublisher, publisher: SlowPublisher) -> None:
    publisher.free.set()
    assert changes._publishing is not None
    await asyncio.wait_for(changes._publishing, LATE)


async def test_the_next_message_gathers_jobs_while_one_is_on_its_way(
    changes: ChangePublisher, publisher: SlowPublisher
) -> None:
    first, *others = jobs = [ids.new() for _ in range(4)]
    changes.notify([first])
    await asyncio.sleep(0)
    for job in (*others, others[0]):
        changes.notify([job])
    await finish(changes, publisher)
    assert publisher.published == [[first], others]
    changes.notify(jobs)
    await finish(changes, publisher)
    assert publisher.published[2:] == [jobs]


async def test_a_message_is_bounded(
    changes: ChangePublisher, publisher: SlowPublisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_JOBS_PER_MESSAGE", 2)
    monkeypatch.setattr(module, "MAX_PENDING", 3)
    jobs = [ids.new() for _ in range(5)]
    changes.notify(jobs[:4])
    changes.notify(jobs[4:])  # there is no room
    await finish(changes, publisher)
    assert publisher.published == [jobs[:2], jobs[2:4]]


async def test_no_jobs_gather_while_the_broker_is_down(changes: ChangePublisher, publisher: SlowPublisher) -> None:
    publisher.connection.is_up = False
    changes.notify([ids.new()])
    assert (changes._pending, changes._publishing) == ({}, None)


async def test_what_is_lost_is_not_repeated(changes: ChangePublisher, publisher: SlowPublisher) -> None:
    publisher.fails = True
    changes.notify([ids.new()])
    await asyncio.sleep(0)
    changes.notify([ids.new()])
    await finish(changes, publisher)
    assert (len(publisher.published), changes._pending) == (1, {})


async def test_nothing_is_published_without_waiters(publisher: SlowPublisher) -> None:
    waiters: list[bool] = []
    changes = ChangePublisher(publisher, lambda: bool(waiters))
    changes.notify([ids.new()])
    assert (changes._pending, changes._publishing) == ({}, None)
    waiters.append(True)
    job = ids.new()
    changes.notify([job])
    await finish(changes, publisher)
    assert publisher.published == [[job]]
