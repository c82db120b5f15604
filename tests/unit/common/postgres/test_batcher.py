"""The micro-batcher."""

import asyncio

import pytest

from common.errors import DatabaseUnavailable, Overloaded
from common.postgres import batcher as module
from common.postgres.batcher import MAX_BATCH_BYTES, Batcher
from tests.support.telemetry.process_metrics import count


class Recorder:
    """A flush that waits for `gate` and keeps its batches."""

    def __init__(self, *bad: int) -> None:
        self.bad = bad
        self.batches: list[list[int]] = []
        self.started = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def flush(self, items: list[int]) -> list[int]:
        self.batches.append(items)
        self.started.set()
        await self.gate.wait()
        if set(items) & set(self.bad):
            raise ValueError("bad row")
        return [item * 10 for item in items]


async def test_each_caller_gets_its_own_result() -> None:
    batcher = Batcher(Recorder().flush, name="test")
    assert await asyncio.gather(*(batcher.submit(item) for item in range(5))) == [0, 10, 20, 30, 40]


async def test_callers_gather_while_a_flush_is_under_way() -> None:
    recorder = Recorder()
    recorder.gate.clear()
    batcher = Batcher(recorder.flush, name="test")
    first = asyncio.create_task(batcher.submit(1))
    await recorder.started.wait()
    others = [asyncio.create_task(batcher.submit(item)) for item in (2, 3, 4)]
    await asyncio.sleep(0)
    recorder.gate.set()
    assert await asyncio.gather(first, *others) == [10, 20, 30, 40]
    assert recorder.batches == [[1], [2, 3, 4]]


async def test_callers_gather_during_the_pause_after_a_batch_of_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PAUSE_SECONDS", 0.4)  # longer than a few turns of the loop ever take
    recorder = Recorder()
    recorder.gate.clear()
    batcher = Batcher(recorder.flush, name="test")
    first = asyncio.gather(batcher.submit(0), batcher.submit(1))
    await recorder.started.wait()
    asyncio.get_running_loop().call_later(0.2, recorder.gate.set)
    await first
    await asyncio.gather(*(later(batcher, item) for item in (2, 3)))
    assert recorder.batches == [[0, 1], [2, 3]]


async def test_a_single_caller_waits_for_no_pause() -> None:
    recorder = Recorder()
    batcher = Batcher(recorder.flush, name="test")
    await asyncio.gather(*(later(batcher, item) for item in (1, 10)))
    await batcher.submit(20)
    assert recorder.batches == [[1], [10], [20]]


async def later(batcher: Batcher[int, int], item: int) -> int:
    for _ in range(item):  # turns of the loop
        await asyncio.sleep(0)
    return await batcher.submit(item)


async def test_a_delay_lets_items_gather_before_a_flush() -> None:
    recorder = Recorder()
    batcher = Batcher(recorder.flush, name="test", delay=0.3)  # longer than a few turns of the loop ever take
    await asyncio.gather(*(later(batcher, item) for item in (1, 2, 3)))
    assert recorder.batches == [[1, 2, 3]]


async def test_the_sizes_of_batches_are_counted() -> None:
    batcher = Batcher(Recorder().flush, name="sizes", limit=2)
    await asyncio.gather(*(batcher.submit(item) for item in range(5)))
    assert count("charonia_batcher_items_count", batcher="sizes") == 3
    assert count("charonia_batcher_items_sum", batcher="sizes") == 5


async def test_a_flush_takes_no_more_than_the_limit() -> None:
    recorder = Recorder()
    batcher = Batcher(recorder.flush, name="test", limit=2)
    await asyncio.gather(*(batcher.submit(item) for item in range(5)))
    assert recorder.batches == [[0, 1], [2, 3], [4]]


async def test_a_bad_row_does_not_fail_its_neighbours() -> None:
    batcher = Batcher(Recorder(2).flush, name="test")
    results = await asyncio.gather(*(batcher.submit(item) for item in (1, 2, 3)), return_exceptions=True)
    assert results[0] == 10
    assert isinstance(results[1], ValueError)
    assert results[2] == 30


async def test_an_outage_fails_the_batch_and_the_next_batch_is_tried() -> None:
    calls: list[int] = []

    async def flush(items: list[int]) -> list[int]:
        calls.append(len(items))
        if len(calls) == 1:
            raise DatabaseUnavailable
        return items

    batcher = Batcher(flush, name="test")
    results = await asyncio.gather(*(batcher.submit(item) for item in (1, 2, 3)), return_exceptions=True)
    assert [type(result) for result in results] == [DatabaseUnavailable] * 3
    assert await batcher.submit(4) == 4
    assert calls == [3, 1]


async def test_callers_that_gathered_during_an_outage_fail_with_it() -> None:
    started, gate = asyncio.Event(), asyncio.Event()
    calls: list[list[int]] = []

    async def flush(items: list[int]) -> list[int]:
        calls.append(items)
        started.set()
        await gate.wait()
        if calls == [[1]]:
            raise DatabaseUnavailable
        return items

    batcher = Batcher(flush, name="test")
    first = asyncio.create_task(batcher.submit(1))
    await started.wait()
    others = [asyncio.create_task(batcher.submit(item)) for item in (2, 3)]
    await asyncio.sleep(0)
    gate.set()
    results = await asyncio.gather(first, *others, return_exceptions=True)
    assert [type(result) for result in results] == [DatabaseUnavailable] * 3
    assert await batcher.submit(4) == 4
    assert calls == [[1], [4]]


async def test_the_buffer_is_bounded() -> None:
    recorder = Recorder()
    recorder.gate.clear()
    batcher = Batcher(recorder.flush, name="test", limit=1, max_waiting=2)
    tasks = [asyncio.create_task(batcher.submit(item)) for item in (1, 2)]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await batcher.submit(3)
    recorder.gate.set()
    assert await asyncio.gather(*tasks) == [10, 20]


async def test_a_caller_that_gave_up_is_left_out() -> None:
    recorder = Recorder()
    recorder.gate.clear()
    batcher = Batcher(recorder.flush, name="test")
    first = asyncio.create_task(batcher.submit(1))
    await recorder.started.wait()
    second, third = (asyncio.create_task(batcher.submit(item)) for item in (2, 3))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait([second])
    recorder.gate.set()
    assert (await first, await third) == (10, 30)
    assert recorder.batches == [[1], [3]]


async def test_large_items_go_in_several_batches_and_a_very_large_one_alone() -> None:
    sizes: list[list[int]] = []

    async def flush(items: list[int]) -> list[int]:
        sizes.append(items)
        return items

    batcher: Batcher[int, int] = Batcher(flush, name="test", size_of=lambda item: item)
    half = MAX_BATCH_BYTES // 2
    items = [half, half, 1, 2 * MAX_BATCH_BYTES, half]
    assert await asyncio.gather(*(batcher.submit(item) for item in items)) == items
    assert sizes == [[half, half], [1], [2 * MAX_BATCH_BYTES], [half]]
