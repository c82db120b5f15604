"""What the recorder makes of an attempt, and what it does while the database is away."""

import random
from collections.abc import Iterable, Sequence
from typing import cast

import pytest

from common.bell import Bell
from common.broker import Publisher
from common.errors import DatabaseUnavailable
from common.job_view import Links
from common.jobs import Failure, Status
from common.outbox import Outbox, OutboxRow
from services.dispatcher import record, retry
from services.dispatcher.inference import Answer
from services.dispatcher.record import Recorder
from services.dispatcher.store import End, Requeue, Start, Store
from tests.unit.dispatcher.jobs import NOW, TRACE, claimed

TRANSIENT = Failure("inference_failed", "try again", True)
PERMANENT = Failure("invalid_input", "never", False)


class FakeStore:
    """Away for the first calls; remembers what it took then."""

    def __init__(self, failures: int, *, fenced: bool = False) -> None:
        self.failures = failures
        self.fenced = fenced
        self.starts: list[Start] = []
        self.ends: list[End] = []
        self.requeues: list[Requeue] = []

    def answer(self) -> None:
        if self.failures:
            self.failures -= 1
            raise DatabaseUnavailable

    async def record_events(self, starts: Sequence[Start]) -> None:
        self.answer()
        self.starts += starts

    async def end_jobs(self, ends: Sequence[End]) -> set[object]:
        self.answer()
        self.ends += ends
        return set() if self.fenced else {end.event.id for end in ends}

    async def requeue_jobs(self, requeues: Sequence[Requeue]) -> set[object]:
        self.answer()
        self.requeues += requeues
        return set() if self.fenced else {back.id for back in requeues}


class FakeOutbox:
    def __init__(self) -> None:
        self.announced: list[OutboxRow] = []

    def announce(self, rows: Iterable[OutboxRow]) -> None:
        self.announced += rows


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "PAUSE_SECONDS", 0.0)


def build(store: FakeStore) -> tuple[Recorder, FakeOutbox]:
    outbox = FakeOutbox()
    return Recorder(
        cast("Store", store), cast("Outbox", outbox), Bell(Publisher("amqp://nobody/", "w")), Links()
    ), outbox


async def test_a_start_is_told_when_the_database_is_back() -> None:
    store = FakeStore(failures=3)
    recorder, outbox = build(store)
    recorder.announce_start(claimed(), TRACE)
    await recorder.drain(5)
    assert [start.event.type for start in store.starts] == ["job.started"]
    assert outbox.announced == [store.starts[0].event.message]


async def test_a_result_is_kept_until_the_database_is_back_and_told_once() -> None:
    store = FakeStore(failures=3)
    recorder, outbox = build(store)
    await recorder.succeed(claimed(), Answer("1", b"[]"), NOW, 5.0, TRACE)
    assert [(end.status, end.outputs) for end in store.ends] == [(Status.SUCCEEDED, b"[]")]
    assert outbox.announced == [store.ends[0].event.message]


async def test_a_result_under_an_old_claim_is_told_to_nobody() -> None:
    store = FakeStore(failures=0, fenced=True)
    recorder, outbox = build(store)
    await recorder.succeed(claimed(), Answer("1", b"[]"), NOW, 5.0, TRACE)
    assert (len(store.ends), outbox.announced) == (1, [])


async def test_a_way_back_to_the_queue_is_kept_until_the_database_is_back() -> None:
    store = FakeStore(failures=3)
    await build(store)[0].settle(claimed(), retry.Attempted(TRANSIENT), NOW, TRACE)
    assert [back.failure for back in store.requeues] == [TRANSIENT]
    assert store.ends == []


async def test_each_failure_waits_for_as_long_as_its_own_chance_says(monkeypatch: pytest.MonkeyPatch) -> None:
    store, chances = FakeStore(failures=0), [0.25, 0.75]
    monkeypatch.setattr(random, "random", lambda: chances.pop(0))
    for _ in range(2):
        await build(store)[0].settle(claimed(), retry.Attempted(TRANSIENT), NOW, TRACE)
    assert [back.delay for back in store.requeues] == [0.25, 0.75]


@pytest.mark.parametrize(
    ("outcome", "given_back", "interrupted"),
    [
        (retry.Attempted(TRANSIENT), False, False),
        (retry.Interrupted(TRANSIENT), True, True),
        (retry.Refused(TRANSIENT), True, False),
    ],
)
async def test_only_what_triton_took_away_is_an_interruption(
    outcome: retry.Outcome, given_back: bool, interrupted: bool
) -> None:
    store = FakeStore(failures=0)
    await build(store)[0].settle(claimed(), outcome, NOW, TRACE)
    assert [(back.given_back, back.interrupted) for back in store.requeues] == [(given_back, interrupted)]


async def test_a_failure_for_good_falls_back_or_ends_the_job() -> None:
    store = FakeStore(failures=0)
    recorder, _ = build(store)
    await recorder.settle(claimed(fallback_model="small"), retry.Attempted(PERMANENT), NOW, TRACE)
    assert [(back.fallback, back.failure) for back in store.requeues] == [("small", PERMANENT)]
    await recorder.settle(claimed(), retry.Attempted(PERMANENT), NOW, TRACE)
    assert [(end.status, end.failure) for end in store.ends] == [(Status.FAILED, PERMANENT)]


async def test_what_cannot_go_back_because_it_is_being_canceled_ends_canceled() -> None:
    store = FakeStore(failures=0, fenced=True)
    await build(store)[0].settle(claimed(), retry.Attempted(TRANSIENT), NOW, TRACE)
    assert [(end.status, end.failure) for end in store.ends] == [(Status.CANCELED, None)]
