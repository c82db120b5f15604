"""A message starts jobs, goes back to its queue, or is unknown."""

import asyncio
from typing import Any

import pytest

from common import ids
from common.errors import DatabaseUnavailable, Retry, UnknownMessage
from common.job_states import Priority
from common.rabbitmq.change_publisher import ChangePublisher
from common.rabbitmq.messages import CancelJob, JobsQueued, QueuedJob
from common.rabbitmq.publisher import Publisher
from services.dispatcher.attempts import runner as module
from services.dispatcher.attempts.attempts import Attempts
from services.dispatcher.attempts.runner import Runner
from services.dispatcher.attempts.suspects import Suspects
from services.dispatcher.claims.claims import Claims
from services.dispatcher.claims.limits import RunLimits
from services.dispatcher.claims.store import Limits, LimitStore
from services.dispatcher.models.served_model import ServedModel
from tests.unit.fake_database import FakeDatabase

JOBS = [QueuedJob(ids.new(), ids.new()) for _ in range(3)]


@pytest.fixture
def model() -> ServedModel:
    found = ServedModel("echo", asyncio.Event())
    found.concurrency.resize(8)
    found.available.set()
    return found


class FakeStore(FakeDatabase):
    """Has no job to claim, or is away."""

    def __init__(self, *, away: bool) -> None:
        self.away = away
        self.calls: list[tuple[object, ...]] = []

    async def find_waiting(self, **_: object) -> list[Any]:
        return [{"tenant_id": job.tenant_id, "id": job.id, "seconds": 0.0} for job in JOBS]

    async def claim_jobs(self, model: str, priority: Priority, count: int, **_: object) -> list[Any]:
        self.calls.append((model, priority, count))
        if self.away:
            raise DatabaseUnavailable
        return [{"id": None, "waiting": None, "contended": False, "next_bytes": None}]


class NoLimits(LimitStore):
    async def list_limits(self) -> Limits:
        return Limits(frozenset(), frozenset())


class NoAttempts(Attempts):
    """Runs nothing: no job is claimed."""

    def __init__(self) -> None:
        pass


def build(store: FakeStore) -> Runner:
    return Runner(
        store,
        Claims(store, RunLimits(NoLimits(store), list), worker="w", lease=60.0),
        NoAttempts(),
        {},
        Suspects({}),
        ChangePublisher(Publisher("amqp://nobody/", "w")),
    )


async def test_a_message_goes_back_while_the_database_is_away(
    model: ServedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.0)
    store = FakeStore(away=True)
    with pytest.raises(Retry):
        await build(store).handle(model, Priority.HIGH, JobsQueued(JOBS[:1]), None)
    assert (store.calls, model.concurrency.used) == ([("echo", Priority.HIGH, 1)], 0)


async def test_a_message_without_a_job_to_claim_is_done(model: ServedModel) -> None:
    store = FakeStore(away=False)
    await build(store).handle(model, Priority.HIGH, JobsQueued(JOBS[:1]), None)
    assert (store.calls, model.concurrency.used) == ([("echo", Priority.HIGH, 1)], 0)


async def test_a_message_goes_back_if_no_slot_becomes_free(model: ServedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HOLD_SECONDS", 0.01)
    model.available.clear()
    store = FakeStore(away=False)
    with pytest.raises(Retry):
        await build(store).handle(model, Priority.HIGH, JobsQueued(JOBS[:1]), None)
    assert store.calls == []


async def test_a_message_for_several_jobs_claims_as_many_as_there_are_slots(
    model: ServedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HOLD_SECONDS", 0.01)
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.1)
    model.concurrency.resize(2)
    store = FakeStore(away=True)  # so each claim holds its slot for a while
    with pytest.raises(Retry):
        await build(store).handle(model, Priority.HIGH, JobsQueued(JOBS), None)
    assert (store.calls, model.concurrency.used) == ([("echo", Priority.HIGH, 2)], 0)


async def test_a_message_for_several_jobs_is_done_after_all_claims(model: ServedModel) -> None:
    store = FakeStore(away=False)
    await build(store).handle(model, Priority.HIGH, JobsQueued(JOBS), None)
    assert (store.calls, model.concurrency.used) == ([("echo", Priority.HIGH, 3)], 0)


async def test_another_message_is_unknown(model: ServedModel) -> None:
    with pytest.raises(UnknownMessage):
        await build(FakeStore(away=False)).handle(model, Priority.HIGH, CancelJob(JOBS[0].id), None)
