"""Somebody who waits for a job, and all that is asked and told for it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import cast

import pytest

from common.broker import Publisher
from services.gateway.attention import Attention
from services.gateway.watch import Watch
from services.gateway.watch_store import WatchStore
from tests.unit.clock import Clock
from tests.unit.gateway.watching import JOB, KEY, LONG, FakePublisher, FakeStore, settle


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def publisher() -> FakePublisher:
    return FakePublisher()


@pytest.fixture
def attention(publisher: FakePublisher, clock: Clock) -> Attention:
    return Attention(cast("Publisher", publisher), clock)


@pytest.fixture
def watch(store: FakeStore, attention: Attention) -> Iterator[Watch]:
    watch = Watch(cast("WatchStore", store), attention, lambda: True)
    yield watch
    watch.close()


@pytest.fixture
async def waiting(watch: Watch) -> AsyncIterator["asyncio.Task[None]"]:
    """Somebody who waits for the job."""
    task = asyncio.create_task(watch.wait(JOB, KEY, LONG))
    await settle()
    assert not task.done()
    yield task
    task.cancel()
    await asyncio.wait([task])
    assert watch.watched == {}
    assert watch.count == 0
