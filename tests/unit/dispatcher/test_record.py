"""What the recorder does while the database is away."""

from collections.abc import Iterable, Sequence
from typing import cast

import pytest

from common.errors import DatabaseUnavailable
from common.job_view import Links
from common.jobs import Status
from common.outbox import Outbox, OutboxRow
from services.dispatcher import record
from services.dispatcher.inference import Answer
from services.dispatcher.record import Recorder
from services.dispatcher.store import End, Start, Store
from tests.unit.dispatcher.jobs import NOW, TRACE, claimed


class FakeStore:
    """Away for the first calls; remembers what it took then."""

    def __init__(self, failures: int, *, fenced: bool = False) -> None:
        self.failures = failures
        self.fenced = fenced
        self.starts: list[Start] = []
        self.ends: list[End] = []

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
    return Recorder(cast("Store", store), cast("Outbox", outbox), Links()), outbox


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
