"""What fans out, claims and records waits for what does so already, and not for long."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from common.database import Database
from services.notifier import lane
from services.notifier.lane import Lane
from services.notifier.outcome import Fault, Outcome
from services.notifier.record import Recorder, write_record
from services.notifier.schedule import Again, Succeeded, Verdict
from services.notifier.store import Store
from tests.unit.notifier.samples import CLAIM


class Reached(Exception):
    """A statement is about to go to the database."""


class Nowhere:
    """In place of a database."""

    async def fetch(self, *_: object) -> list[Any]:
        raise Reached

    def transaction(self) -> None:
        raise Reached


async def record(store: Store, outcome: Outcome, verdict: Verdict) -> None:
    recorder = Recorder(store, cast("Any", None), lambda: None, concurrency=1, patience=1.0)
    await recorder.write([write_record(CLAIM, outcome, verdict)])


CALLS: list[Callable[[Store], Awaitable[object]]] = [
    lambda store: store.fan_out({}, 0.0, 1.0, 1, 1),
    lambda store: store.fan_out_left([], {}, 0.0, 1.0, 1, 1),
    lambda store: store.claim_deliveries(1, 1.0, 1),
    lambda store: record(store, Outcome(status_code=204), Succeeded()),
    lambda store: record(store, Outcome(fault=Fault.TIMEOUT), Again(1.0)),
]


@pytest.mark.parametrize("call", CALLS)
async def test_each_waits_for_the_one_before(call: Callable[[Store], Awaitable[object]]) -> None:
    store = Store(cast("Database", Nowhere()))
    async with store.lane.enter():
        waiting = asyncio.ensure_future(call(store))
        await asyncio.sleep(0)  # it goes as far as it can
        assert not waiting.done()
    with pytest.raises(Reached):
        await waiting
    assert not store.lane.free.locked()


async def test_none_waits_for_longer_than_its_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane, "PATIENCE_SECONDS", 0.0)
    busy = Lane()
    async with asyncio.timeout(5.0), busy.enter(), busy.enter():
        assert busy.free.locked()
    assert not busy.free.locked()


async def test_one_that_has_been_inside_for_long_is_passed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane, "PATIENCE_SECONDS", 3600.0)
    busy = Lane()
    async with busy.enter():
        busy.since -= 3600.0
        async with asyncio.timeout(5.0), busy.enter():
            assert busy.free.locked()
