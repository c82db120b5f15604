"""What a message and a failed attempt come to."""

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest

from common import ids
from common.bell import Bell
from common.broker import Publisher
from common.errors import DatabaseUnavailable, Reject, Retry
from common.jobs import Failure, Priority
from common.messages import CancelJob, JobEvent, JobQueued, JobsQueued, Listening
from services.dispatcher import retry, run
from services.dispatcher.catalogue import Runnable
from services.dispatcher.judgment import judge
from services.dispatcher.listeners import MEMORY_SECONDS, Listeners
from services.dispatcher.record import Recorder
from services.dispatcher.run import Runner
from services.dispatcher.store import Claimed, Store
from services.dispatcher.triton import MODEL_CRASHED, QUEUE_FULL, InferenceError, Triton

JOB = ids.new()


@pytest.fixture
def model() -> Runnable:
    found = Runnable("echo", asyncio.Event())
    found.slots.resize(8)
    found.gate.set()
    return found


class FakeStore:
    """Has no job to claim, or is away."""

    def __init__(self, *, away: bool) -> None:
        self.away = away
        self.asked: list[tuple[object, ...]] = []

    async def claim_jobs(self, *asked: object) -> Claimed:
        self.asked.append(asked[:3])
        if self.away:
            raise DatabaseUnavailable
        return Claimed([], False)


def build(store: FakeStore, now: Sequence[float] = (0.0,)) -> Runner:
    parts = cast("Triton", None), cast("Store", store), cast("Recorder", None), Bell(Publisher("amqp://nobody/", "w"))
    return Runner(*parts, Listeners(lambda: now[0]), worker="w", lease=60.0)


async def test_a_message_goes_back_while_the_database_is_away(model: Runnable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "PAUSE_SECONDS", 0.0)
    store = FakeStore(away=True)
    with pytest.raises(Retry):
        await build(store).handle(model, Priority.HIGH, JobQueued(JOB), None)
    assert (store.asked, model.slots.used) == ([("echo", Priority.HIGH, 1)], 0)


async def test_a_message_whose_job_is_not_to_be_had_is_done_with(model: Runnable) -> None:
    store = FakeStore(away=False)
    await build(store).handle(model, Priority.HIGH, JobQueued(JOB), None)
    assert (store.asked, model.slots.used) == ([("echo", Priority.HIGH, 1)], 0)


async def test_a_message_goes_back_where_no_slot_becomes_free(model: Runnable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "HOLD_SECONDS", 0.01)
    model.gate.clear()
    store = FakeStore(away=False)
    with pytest.raises(Retry):
        await build(store).handle(model, Priority.HIGH, JobQueued(JOB), None)
    assert store.asked == []


async def test_a_message_for_several_claims_as_many_as_there_are_slots_for(
    model: Runnable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "HOLD_SECONDS", 0.01)
    monkeypatch.setattr(run, "PAUSE_SECONDS", 0.1)
    model.slots.resize(2)
    store = FakeStore(away=True)  # so each claim holds its slot for a while
    with pytest.raises(Retry):
        await build(store).handle(model, Priority.HIGH, JobsQueued([JOB] * 3), None)
    assert (store.asked, model.slots.used) == ([("echo", Priority.HIGH, 2)], 0)


async def test_a_message_for_several_is_done_with_when_each_has_claimed(model: Runnable) -> None:
    store = FakeStore(away=False)
    await build(store).handle(model, Priority.HIGH, JobsQueued([JOB] * 3), None)
    assert (store.asked, model.slots.used) == ([("echo", Priority.HIGH, 3)], 0)


async def test_what_does_not_belong_in_a_queue_is_rejected(model: Runnable) -> None:
    runner = build(FakeStore(away=False))
    with pytest.raises(Reject):
        await runner.handle(model, Priority.HIGH, CancelJob(JOB), None)
    with pytest.raises(Reject):
        await runner.take_control(JobEvent(JOB), None)


async def test_it_hears_that_somebody_listens() -> None:
    now = [0.0]
    runner = build(FakeStore(away=False), now)
    now[0] = MEMORY_SECONDS
    await runner.take_control(CancelJob(JOB), None)
    assert (runner.listeners.are_there(), runner.beat.is_set()) == (False, True)
    runner.beat.clear()
    await runner.take_control(Listening(), None)
    assert (runner.listeners.are_there(), runner.beat.is_set()) == (True, False)


def test_an_outage_closes_the_models_gate(model: Runnable) -> None:
    failure = Failure("triton_unavailable", "away", True)
    assert judge(model, InferenceError(failure, outage=True)) == retry.Interrupted(failure)
    assert (model.gate.is_set(), model.alarm.is_set()) == (False, True)


def test_a_model_whose_process_fell_silent_asks_for_a_look_and_uses_up_an_attempt(model: Runnable) -> None:
    failure = Failure(MODEL_CRASHED, "Stub process 'echo_0_0' is not healthy.", True)
    assert judge(model, InferenceError(failure)) == retry.Attempted(failure)
    assert (model.gate.is_set(), model.alarm.is_set()) == (True, True)


def test_a_full_queue_halves_the_slots(model: Runnable) -> None:
    failure = Failure(QUEUE_FULL, "Exceeds maximum queue size", True)
    model.slots.used = 8
    assert judge(model, InferenceError(failure, refused=True)) == retry.Refused(failure)
    assert (model.slots.limit, model.gate.is_set()) == (4, True)


@pytest.mark.parametrize(
    ("code", "doubted"), [("inference_failed", False), ("invalid_input", True), ("invalid_output", True)]
)
def test_a_failure_of_its_own_counts_and_may_tell_of_a_reload(model: Runnable, code: str, doubted: bool) -> None:
    failure = Failure(code, "as it happens", True)
    assert judge(model, InferenceError(failure)) == retry.Attempted(failure)
    assert (model.slots.limit, model.gate.is_set(), model.alarm.is_set()) == (8, True, doubted)
