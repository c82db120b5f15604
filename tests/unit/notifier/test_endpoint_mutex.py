"""Fan-outs, claims and records wait for the holder of the mutex, for a limited time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from common.postgres.database import Database
from services.notifier import endpoint_mutex
from services.notifier.attempt_recorder import AttemptRecorder, make_record
from services.notifier.attempt_result import AttemptError, AttemptResult
from services.notifier.endpoint_mutex import EndpointMutex
from services.notifier.retry_schedule import Decision, Rescheduled, Succeeded
from services.notifier.store.attempts import AttemptStore
from services.notifier.store.claims import ClaimStore
from services.notifier.store.fanout import ClaimOptions, FanoutStore
from tests.unit.notifier.samples import CLAIM


class Reached(Exception):
    """A statement reached the database."""


class DatabaseStub:
    """Raises Reached on every use."""

    async def fetch(self, *_: object) -> list[Any]:
        raise Reached

    def transaction(self) -> None:
        raise Reached


DATABASE = cast("Database", DatabaseStub())
OPTIONS = ClaimOptions(0.0, 1.0, 1, 1)


async def record(mutex: EndpointMutex, result: AttemptResult, decision: Decision) -> None:
    store, unused = AttemptStore(DATABASE, mutex), cast("Any", None)
    recorder = AttemptRecorder(store, unused, lambda: None, endpoint_concurrency=1, disable_after=1.0)
    await recorder.write([make_record(CLAIM, result, decision)])


CALLS: list[Callable[[EndpointMutex], Awaitable[object]]] = [
    lambda mutex: FanoutStore(DATABASE, mutex).fan_out({}, OPTIONS),
    lambda mutex: FanoutStore(DATABASE, mutex).fan_out_with_locks([], {}, OPTIONS),
    lambda mutex: ClaimStore(DATABASE, mutex).claim_due(1, 1.0, 1),
    lambda mutex: record(mutex, AttemptResult(status_code=204), Succeeded()),
    lambda mutex: record(mutex, AttemptResult(error=AttemptError.TIMEOUT), Rescheduled(1.0)),
]


@pytest.mark.parametrize("call", CALLS)
async def test_each_waits_for_the_holder(call: Callable[[EndpointMutex], Awaitable[object]]) -> None:
    mutex = EndpointMutex()
    async with mutex.hold():
        waiting = asyncio.ensure_future(call(mutex))
        await asyncio.sleep(0)  # it runs until it blocks
        assert not waiting.done()
    with pytest.raises(Reached):
        await waiting
    assert not mutex.is_held


async def test_nobody_waits_longer_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_mutex, "MAX_HOLD_SECONDS", 0.0)
    mutex = EndpointMutex()
    async with asyncio.timeout(5.0), mutex.hold(), mutex.hold():
        assert mutex.is_held
    assert not mutex.is_held


async def test_a_long_holder_is_passed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_mutex, "MAX_HOLD_SECONDS", 3600.0)
    mutex = EndpointMutex()
    async with mutex.hold():
        mutex._held_since -= 3600.0
        async with asyncio.timeout(5.0), mutex.hold():
            assert mutex.is_held
