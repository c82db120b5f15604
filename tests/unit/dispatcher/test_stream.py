"""Responses on their way into the database."""

import asyncio

import pytest

from common.errors import DatabaseUnavailable
from services.dispatcher import record
from services.dispatcher import stream as module
from services.dispatcher.store import Step
from services.dispatcher.stream import Stream
from tests.unit.dispatcher.jobs import claimed

JOB = claimed()


class FakeBatcher:
    """Takes what is given to it, once it may; fails so often."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.free = asyncio.Event()
        self.taken: list[list[bytes]] = []

    async def submit(self, steps: list[Step]) -> bool:
        await self.free.wait()
        if self.failures:
            self.failures -= 1
            raise DatabaseUnavailable
        self.taken.append([step.outputs for step in steps])
        assert {(step.job_id, step.claim) for step in steps} == {(JOB.row.id, JOB.claim)}
        return True


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "PAUSE_SECONDS", 0.0)


async def test_all_is_written_in_order_before_the_block_ends_though_the_database_is_away() -> None:
    batcher = FakeBatcher(failures=3)
    async with Stream(JOB, batcher.submit) as stream:
        await stream.add(b"1")
        await asyncio.sleep(0)
        for number in (b"2", b"3"):
            await stream.add(number)
        batcher.free.set()
    assert [each for steps in batcher.taken for each in steps] == [b"1", b"2", b"3"]


async def test_numbers_count_from_one() -> None:
    seen: list[int] = []

    async def write(steps: list[Step]) -> bool:
        seen.extend(step.number for step in steps)
        return True

    async with Stream(JOB, write) as stream:
        for _ in range(50):
            await stream.add(b"")
    assert seen == list(range(1, 51))


async def test_a_model_waits_for_a_database_that_is_far_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITING", 2)
    batcher = FakeBatcher()
    async with Stream(JOB, batcher.submit) as stream:
        await stream.add(b"1")
        await asyncio.sleep(0)
        for number in (b"2", b"3"):
            await stream.add(number)
        late = asyncio.create_task(stream.add(b"4"))
        await asyncio.sleep(0)
        assert not late.done()
        batcher.free.set()
        await late
    assert [each for steps in batcher.taken for each in steps] == [b"1", b"2", b"3", b"4"]


async def test_a_cancelled_attempt_leaves_what_is_not_written() -> None:
    batcher = FakeBatcher()

    async def attempt() -> None:
        async with Stream(JOB, batcher.submit) as stream:
            await stream.add(b"1")
            await asyncio.Event().wait()

    task = asyncio.create_task(attempt())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)
    assert batcher.taken == []


async def test_a_failed_attempt_leaves_nothing_unwritten() -> None:
    batcher = FakeBatcher()
    batcher.free.set()

    async def attempt() -> None:
        async with Stream(JOB, batcher.submit) as stream:
            await stream.add(b"1")
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await attempt()
    assert batcher.taken == [[b"1"]]
