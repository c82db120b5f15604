"""Results are recorded once, also after an outage of the database."""

import asyncio
import random
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

import msgspec
import pytest
from prometheus_client import REGISTRY

from common.errors import DatabaseUnavailable
from common.job_states import Failure, Status
from common.jobs.end import JobEnd
from common.jobs.new_event import NewEvent
from common.jobs.requeue import Requeue
from common.rabbitmq.change_publisher import ChangePublisher
from common.rabbitmq.publisher import Publisher
from common.rabbitmq.wake_ups import WakeUp, event_wake_up
from services.dispatcher.failures import retry_policy
from services.dispatcher.results import result_writer
from services.dispatcher.results.result_recorder import ResultRecorder
from services.dispatcher.results.store import AttemptStart, ResultStore
from services.dispatcher.triton.model_usage import ModelUsage
from services.dispatcher.triton.responses import InferenceResult
from tests.support.recorded_wake_ups import RecordedWakeUps
from tests.support.result_recorder import make_recorder
from tests.unit.dispatcher.jobs import NOW, TRACE, claimed
from tests.unit.fake_database import FakeDatabase

TRANSIENT = Failure("inference_failed", "try again", True)
PERMANENT = Failure("invalid_input", "never", False)


class FakeStore(ResultStore, FakeDatabase):
    """Fails this many calls, then records what it gets."""

    def __init__(self, failures: int, *, fenced: bool = False) -> None:
        self.failures = failures
        self.fenced = fenced
        self.starts: list[AttemptStart] = []
        self.ends: list[JobEnd] = []
        self.requeues: list[Requeue] = []

    def fail(self) -> None:
        if self.failures:
            self.failures -= 1
            raise DatabaseUnavailable

    async def record_starts(self, starts: Sequence[AttemptStart]) -> None:
        self.fail()
        self.starts += starts

    async def end_jobs(self, ends: Sequence[JobEnd]) -> set[UUID]:
        self.fail()
        self.ends += ends
        return set() if self.fenced else {end.event.id for end in ends}

    async def requeue_jobs(self, requeues: Sequence[Requeue]) -> set[UUID]:
        self.fail()
        self.requeues += requeues
        return set() if self.fenced else {back.id for back in requeues}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store stands for the database, too."""
    monkeypatch.setattr(result_writer, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(result_writer, "end_jobs", FakeStore.end_jobs)
    monkeypatch.setattr(result_writer, "requeue_jobs", FakeStore.requeue_jobs)


def to_wake_up(event: NewEvent) -> WakeUp:
    return event_wake_up(event.id, event.type, event.traceparent)


def build(store: FakeStore) -> tuple[ResultRecorder, RecordedWakeUps]:
    wake_ups, changes = RecordedWakeUps(), ChangePublisher(Publisher("amqp://nobody/", "w"))
    return make_recorder(store, store, wake_ups, changes), wake_ups


async def test_a_start_is_announced_after_an_outage() -> None:
    store = FakeStore(failures=3)
    recorder, wake_ups = build(store)
    recorder.announce_start(claimed(), TRACE)
    await recorder.drain(5)
    assert [start.event.type for start in store.starts] == ["job.started"]
    assert wake_ups.announced == [to_wake_up(store.starts[0].event)]


async def test_a_result_survives_an_outage_and_is_announced_once() -> None:
    store = FakeStore(failures=3)
    recorder, wake_ups = build(store)
    await recorder.succeed(claimed(), InferenceResult("1", b"[]"), NOW, 5.0, TRACE)
    assert [(end.status, end.outputs) for end in store.ends] == [(Status.SUCCEEDED, b"[]")]
    assert wake_ups.announced == [to_wake_up(store.ends[0].event)]


@pytest.mark.parametrize("fenced", [False, True])
async def test_the_tokens_of_a_job_count_once_it_has_ended(fenced: bool) -> None:
    recorder, _ = build(store := FakeStore(failures=1, fenced=fenced))
    job = msgspec.structs.replace(claimed(), model=f"speaks-{fenced}")
    await recorder.succeed(job, InferenceResult("1", b"[]", usage=ModelUsage(3, 5, "stop")), NOW, 5.0, TRACE)
    assert [(end.prompt_tokens, end.completion_tokens, end.finish_reason) for end in store.ends] == [(3, 5, "stop")]
    counted = [
        REGISTRY.get_sample_value("charonia_tokens_total", {"model": job.model, "kind": kind})
        for kind in ("prompt", "completion")
    ]
    assert counted == ([None, None] if fenced else [3, 5])


async def test_a_result_under_an_old_claim_is_not_announced() -> None:
    store = FakeStore(failures=0, fenced=True)
    recorder, wake_ups = build(store)
    await recorder.succeed(claimed(), InferenceResult("1", b"[]"), NOW, 5.0, TRACE)
    assert (len(store.ends), wake_ups.announced) == (1, [])


async def test_a_requeue_survives_an_outage() -> None:
    store = FakeStore(failures=3)
    await build(store)[0].record_failure(claimed(), retry_policy.Attempted(TRANSIENT), NOW, TRACE)
    assert [back.failure for back in store.requeues] == [TRANSIENT]
    assert store.ends == []


async def test_each_failure_draws_its_own_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    store, chances = FakeStore(failures=0), [0.25, 0.75]
    monkeypatch.setattr(random, "random", lambda: chances.pop(0))
    for _ in range(2):
        await build(store)[0].record_failure(claimed(), retry_policy.Attempted(TRANSIENT), NOW, TRACE)
    assert [back.delay for back in store.requeues] == [0.25, 0.75]


@pytest.mark.parametrize(
    ("outcome", "given_back", "interruptions", "probation"),
    [
        (retry_policy.Attempted(TRANSIENT), False, 0, None),
        (retry_policy.Interrupted(TRANSIENT), True, 3, retry_policy.PROBATION_SECONDS),
        (retry_policy.Lost(TRANSIENT), True, 3, retry_policy.PROBATION_SECONDS),
        (retry_policy.Refused(TRANSIENT), True, None, None),
    ],
)
async def test_only_a_crash_is_an_interruption(
    outcome: retry_policy.Outcome, given_back: bool, interruptions: int | None, probation: float | None
) -> None:
    store = FakeStore(failures=0)
    job = msgspec.structs.replace(claimed(), interruptions=2)
    await build(store)[0].record_failure(job, outcome, NOW, TRACE)
    (back,) = store.requeues
    assert (back.given_back, back.interruptions, back.probation) == (given_back, interruptions, probation)


@pytest.mark.parametrize(
    ("outcome", "ran", "counts"),
    [
        (retry_policy.Interrupted(TRANSIENT), 29.0, True),
        (retry_policy.Interrupted(TRANSIENT), 31.0, False),
        (retry_policy.Lost(TRANSIENT), 31.0, True),  # the last renewal still found it on probation
    ],
)
async def test_an_interruption_counts_for_a_job_on_probation(
    outcome: retry_policy.Outcome, ran: float, counts: bool
) -> None:
    store = FakeStore(failures=0)
    job = msgspec.structs.replace(claimed(), interruptions=3, probation=30.0)
    await build(store)[0].record_failure(job, outcome, NOW + timedelta(seconds=ran), TRACE)
    (back,) = store.requeues
    assert (back.given_back, back.interruptions, back.probation) == (not counts, 4, 60.0)


async def test_a_fallback_model_is_not_suspected() -> None:
    store = FakeStore(failures=0)
    job = msgspec.structs.replace(claimed(fallback_model="small"), attempt=5, interruptions=5, probation=120.0)
    await build(store)[0].record_failure(job, retry_policy.Interrupted(TRANSIENT), NOW, TRACE)
    assert [(back.fallback, back.interruptions, back.probation) for back in store.requeues] == [("small", 0, None)]


async def test_a_permanent_failure_falls_back_or_ends_the_job() -> None:
    store = FakeStore(failures=0)
    recorder, _ = build(store)
    await recorder.record_failure(claimed(fallback_model="small"), retry_policy.Attempted(PERMANENT), NOW, TRACE)
    assert [(back.fallback, back.failure) for back in store.requeues] == [("small", PERMANENT)]
    await recorder.record_failure(claimed(), retry_policy.Attempted(PERMANENT), NOW, TRACE)
    assert [(end.status, end.failure) for end in store.ends] == [(Status.FAILED, PERMANENT)]


async def test_a_job_that_is_being_canceled_ends_canceled_instead_of_going_back() -> None:
    store = FakeStore(failures=0, fenced=True)
    await build(store)[0].record_failure(claimed(), retry_policy.Attempted(TRANSIENT), NOW, TRACE)
    assert [(end.status, end.failure) for end in store.ends] == [(Status.CANCELED, None)]


@pytest.mark.parametrize("ends", [True, False])
async def test_the_start_is_recorded_before_what_follows(ends: bool) -> None:
    """So the events of a job are recorded in the order of their sequence."""
    store, job = FakeStore(failures=1), claimed()
    recorder, _ = build(store)
    recorder.announce_start(job, TRACE)
    if ends:
        following = asyncio.create_task(recorder.succeed(job, InferenceResult("1", b"[]"), NOW, 5.0, TRACE))
    else:
        following = asyncio.create_task(recorder.record_failure(job, retry_policy.Attempted(TRANSIENT), NOW, TRACE))
    while not store.starts:
        await asyncio.sleep(0)
        assert not store.ends
        assert not store.requeues
    await following
    assert store.starts[0].event.sequence == 1001
    assert [end.event.sequence for end in store.ends] == ([1999] if ends else [])
