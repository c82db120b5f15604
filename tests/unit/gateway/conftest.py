"""Fixtures for tests of waiters."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import pytest

from common.security.ssrf import AddressPolicy
from services.gateway.events import waiters as waiters_module
from services.gateway.events.waiter_presence import WaiterPresence
from services.gateway.events.waiters import Waiters
from services.gateway.jobs.inputs.files import InputFiles
from services.gateway.jobs.inputs.large_input_writer import LargeInputWriter
from services.gateway.jobs.lookups import Lookups
from services.gateway.jobs.submit import Submitter
from tests.unit.clock import Clock
from tests.unit.gateway.events.fakes import JOB, KEY, LONG, FakeStore, RecordedPublisher, run_pending
from tests.unit.gateway.parsing import FakeCatalogue, FakePipelines, FakeWorkers


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def publisher() -> RecordedPublisher:
    return RecordedPublisher()


@pytest.fixture
def presence(publisher: RecordedPublisher, clock: Clock) -> WaiterPresence:
    return WaiterPresence(publisher, clock)


@pytest.fixture
def waiters(store: FakeStore, presence: WaiterPresence, monkeypatch: pytest.MonkeyPatch) -> Iterator[Waiters]:
    """Waiters that look at a job when told to: by a message, or by a poll. Rechecks have tests of their own."""
    monkeypatch.setattr(waiters_module, "RECHECK_SECONDS", ())
    waiters = Waiters(store, presence, lambda: True)
    yield waiters
    waiters.close()


@pytest.fixture
async def waiting(waiters: Waiters) -> AsyncIterator["asyncio.Task[None]"]:
    """A task that waits for the job."""
    task = asyncio.create_task(waiters.wait(JOB, KEY, LONG))
    await run_pending()
    assert not task.done()
    yield task
    task.cancel()
    await asyncio.wait([task])
    assert waiters._by_job == {}
    assert waiters.count == 0


@pytest.fixture
def workers() -> FakeWorkers:
    return FakeWorkers()


@pytest.fixture
def submitter(workers: FakeWorkers) -> Submitter:
    none = cast(Any, None)
    files = InputFiles(none, none, none, 2**20, AddressPolicy())
    lookups, large_inputs = Lookups(files, FakePipelines()), LargeInputWriter(none, none, none, none)
    return Submitter(
        none, FakeCatalogue(), none, AddressPolicy(), none, none, workers, lookups, large_inputs, none, none
    )
