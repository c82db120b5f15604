"""Streamed responses are written in order, and before the attempt ends."""

import asyncio

import pytest

from common.errors import DatabaseUnavailable
from services.dispatcher.results import result_writer
from services.dispatcher.results import stream_recorder as module
from services.dispatcher.results.result_writer import save_with_retry
from services.dispatcher.results.store import Step
from services.dispatcher.results.stream_recorder import StreamRecorder
from services.dispatcher.triton.tensors import Rendered
from tests.unit.clock import LATE
from tests.unit.dispatcher.jobs import claimed

JOB = claimed()


class FakeWriter:
    """Fails this many times, then accepts what it gets. It waits until it is free."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.free = asyncio.Event()
        self.taken: list[list[bytes]] = []

    async def write(self, steps: list[Step]) -> bool:
        return await save_with_retry(self._submit, self._submit, steps)

    async def _submit(self, steps: list[Step]) -> bool:
        await self.free.wait()
        if self.failures:
            self.failures -= 1
            raise DatabaseUnavailable
        self.taken.append([step.outputs for step in steps])
        assert {(step.job_id, step.claim) for step in steps} == {(JOB.id, JOB.claim)}
        return True


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_writer, "RETRY_SECONDS", 0.0)


async def test_everything_is_written_in_order_before_the_block_ends_despite_an_outage() -> None:
    writer = FakeWriter(failures=3)
    async with StreamRecorder(JOB, writer.write) as stream:
        await stream.add(Rendered(b"1"))
        await asyncio.sleep(0)
        for number in (b"2", b"3"):
            await stream.add(Rendered(number))
        writer.free.set()
    assert [each for steps in writer.taken for each in steps] == [b"1", b"2", b"3"]


async def test_numbers_are_even_so_that_a_cancel_request_fits_between() -> None:
    seen: list[int] = []

    async def write(steps: list[Step]) -> bool:
        seen.extend(step.number for step in steps)
        return True

    async with StreamRecorder(JOB, write) as stream:
        for _ in range(50):
            await stream.add(Rendered(b""))
    assert seen == list(range(2, 101, 2))


async def test_a_model_waits_if_the_database_is_far_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 2)
    writer = FakeWriter()
    async with StreamRecorder(JOB, writer.write) as stream:
        await stream.add(Rendered(b"1"))
        await asyncio.sleep(0)
        for number in (b"2", b"3"):
            await stream.add(Rendered(number))
        late = asyncio.create_task(stream.add(Rendered(b"4")))
        await asyncio.sleep(0)
        assert not late.done()
        writer.free.set()
        await late
    assert [each for steps in writer.taken for each in steps] == [b"1", b"2", b"3", b"4"]


async def test_a_cancelled_attempt_drops_unwritten_responses() -> None:
    writer = FakeWriter()

    async def attempt() -> None:
        async with StreamRecorder(JOB, writer.write) as stream:
            await stream.add(Rendered(b"1"))
            await asyncio.Event().wait()

    task = asyncio.create_task(attempt())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, LATE)
    assert writer.taken == []


async def test_a_failed_attempt_still_writes_its_responses() -> None:
    writer = FakeWriter()
    writer.free.set()

    async def attempt() -> None:
        async with StreamRecorder(JOB, writer.write) as stream:
            await stream.add(Rendered(b"1"))
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await attempt()
    assert writer.taken == [[b"1"]]


async def refuse(_steps: list[Step]) -> bool:
    raise ValueError("refused")


async def test_a_response_that_cannot_be_written_fails_the_attempt() -> None:
    async def attempt() -> None:
        async with StreamRecorder(JOB, refuse) as stream:
            await stream.add(Rendered(b"1"))

    with pytest.raises(ValueError, match="refused"):
        await asyncio.wait_for(attempt(), LATE)


async def test_a_model_does_not_wait_for_a_writer_that_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 2)
    added = 0

    async def attempt() -> None:
        nonlocal added
        async with StreamRecorder(JOB, refuse) as stream:
            for _ in range(10):
                await stream.add(Rendered(b""))
                added += 1

    with pytest.raises(ValueError, match="refused"):
        await asyncio.wait_for(attempt(), LATE)
    assert added < 10


async def test_the_error_of_an_attempt_wins_over_that_of_its_writer() -> None:
    async def attempt() -> None:
        async with StreamRecorder(JOB, refuse) as stream:
            await stream.add(Rendered(b"1"))
            raise LookupError("broken")

    with pytest.raises(LookupError, match="broken"):
        await asyncio.wait_for(attempt(), LATE)
