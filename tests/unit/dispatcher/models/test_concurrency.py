"""Slots go to the right waiter, and none is ever lost."""

import asyncio
from collections.abc import Awaitable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.job_states import Priority
from services.dispatcher.models.concurrency import AGEING_SECONDS, QUICK_SECONDS, ConcurrencyLimit
from tests.unit.clock import Clock


class Queue:
    """Waiters for slots, which record the order in which they were served."""

    def __init__(self, size: int) -> None:
        self.clock = Clock()
        self.limit = ConcurrencyLimit(size, self.clock)
        self.served: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def arrive(self, name: str, priority: Priority) -> None:
        async def wait() -> None:
            await self.limit.acquire(priority)
            self.served.append(name)

        self.tasks[name] = asyncio.create_task(wait())
        await run_ready_tasks()

    async def release(self, count: int = 1) -> None:
        for _ in range(count):
            self.limit.release()
            await run_ready_tasks()

    async def close(self) -> None:
        for task in self.tasks.values():
            task.cancel()
        await run_ready_tasks()


async def run_ready_tasks() -> None:
    """Let every task run that can."""
    for _ in range(5):
        await asyncio.sleep(0)


async def until_cancelled(task: Awaitable[None]) -> None:
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_size_limits_how_many_slots_are_held() -> None:
    queue = Queue(2)
    for name in "abc":
        await queue.arrive(name, Priority.NORMAL)
    assert queue.served == ["a", "b"]
    await queue.release()
    assert queue.served == ["a", "b", "c"]


async def test_a_free_slot_goes_to_the_oldest_waiter_of_the_highest_class() -> None:
    queue = Queue(1)
    await queue.arrive("holder", Priority.LOW)
    for name, priority in (
        ("low", Priority.LOW),
        ("normal 1", Priority.NORMAL),
        ("high 1", Priority.HIGH),
        ("normal 2", Priority.NORMAL),
        ("high 2", Priority.HIGH),
    ):
        await queue.arrive(name, priority)
    await queue.release(5)
    assert queue.served[1:] == ["high 1", "high 2", "normal 1", "normal 2", "low"]


@pytest.mark.parametrize("priority", [Priority.NORMAL, Priority.LOW])
async def test_an_aged_waiter_goes_before_a_higher_class(priority: Priority) -> None:
    queue = Queue(1)
    await queue.arrive("holder", Priority.HIGH)
    await queue.arrive("old", priority)
    queue.clock.now = AGEING_SECONDS[priority] - 0.1
    await queue.arrive("high, in time", Priority.HIGH)
    queue.clock.now = AGEING_SECONDS[priority] + 0.1
    await queue.arrive("high, too late", Priority.HIGH)
    await queue.release(3)
    assert queue.served[1:] == ["high, in time", "old", "high, too late"]


async def test_low_is_not_starved_behind_an_endless_queue_of_a_higher_class() -> None:
    """Each queue delivers up to its prefetch, and the next message as soon as one is acknowledged."""
    queue = Queue(4)
    for number in range(4):
        await queue.arrive(f"holder {number}", Priority.HIGH)
    await queue.arrive("low 1", Priority.LOW)
    await queue.arrive("low 2", Priority.LOW)
    for second in range(100):
        queue.clock.now = float(second)
        await queue.arrive(f"high {second}", Priority.HIGH)
        if second > 2:  # so that two always wait
            await queue.release()
    low = [queue.served.index(name) - 4 for name in ("low 1", "low 2")]
    assert AGEING_SECONDS[Priority.LOW] - 2 <= low[0] < low[1] <= AGEING_SECONDS[Priority.LOW] + 2


async def test_a_new_waiter_does_not_overtake_earlier_ones() -> None:
    queue = Queue(1)
    await queue.arrive("holder", Priority.NORMAL)
    await queue.arrive("waiting", Priority.LOW)
    queue.limit.release()  # "waiting" gets the slot but has not run yet
    await queue.arrive("newcomer", Priority.HIGH)
    assert queue.served == ["holder", "waiting"]


async def test_a_larger_size_serves_waiters() -> None:
    queue = Queue(1)
    for name in "abcd":
        await queue.arrive(name, Priority.NORMAL)
    queue.limit.resize(3)
    await run_ready_tasks()
    assert queue.served == ["a", "b", "c"]


async def test_a_smaller_size_takes_slots_back_as_they_are_released() -> None:
    queue = Queue(3)
    for name in "abcd":
        await queue.arrive(name, Priority.NORMAL)
    queue.limit.resize(1)
    await queue.release(2)
    assert queue.served == ["a", "b", "c"]
    await queue.release()
    assert queue.served == ["a", "b", "c", "d"]
    assert queue.limit.used == 1


async def test_a_cancelled_waiter_takes_no_slot() -> None:
    queue = Queue(1)
    for name in "abc":
        await queue.arrive(name, Priority.NORMAL)
    queue.tasks["b"].cancel()
    await until_cancelled(queue.tasks["b"])
    await queue.release()
    assert queue.served == ["a", "c"]
    await queue.release()
    assert queue.limit.used == 0


async def test_a_waiter_that_is_cancelled_as_it_is_served_passes_the_slot_on() -> None:
    queue = Queue(1)
    for name in "abc":
        await queue.arrive(name, Priority.NORMAL)
    queue.limit.release()  # grants the slot to b …
    queue.tasks["b"].cancel()  # … which is cancelled before it can run
    await until_cancelled(queue.tasks["b"])
    await run_ready_tasks()
    assert queue.served == ["a", "c"]
    await queue.release()
    assert queue.limit.used == 0


Step = tuple[str, int]
STEPS = st.lists(
    st.tuples(st.sampled_from(["arrive", "arrive", "cancel", "release", "resize"]), st.integers(0, 7)), max_size=40
)


@given(steps=STEPS, lazily=st.booleans())
@settings(deadline=None)
def test_no_slot_is_lost_or_duplicated(steps: list[Step], lazily: bool) -> None:
    """`lazily`: tasks run only at the end, so that several events hit a waiter at once."""

    async def play() -> None:
        limit = ConcurrencyLimit(2)
        tasks: list[asyncio.Task[None]] = []
        released = 0
        for action, number in steps:
            match action:
                case "arrive":
                    tasks.append(asyncio.create_task(limit.acquire(list(Priority)[number % 3])))
                case "cancel" if tasks:
                    tasks[number % len(tasks)].cancel()
                case "resize":
                    limit.resize(number)
                case "release" if released < count_holders(tasks):
                    limit.release()
                    released += 1
            if not lazily:
                await run_ready_tasks()
        await run_ready_tasks()
        assert limit.used == count_holders(tasks) - released
        limit.resize(len(tasks) + released)
        await run_ready_tasks()
        assert all(task.done() for task in tasks)
        assert limit.used == count_holders(tasks) - released

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(play())


def count_holders(tasks: list[asyncio.Task[None]]) -> int:
    return sum(task.done() and not task.cancelled() for task in tasks)


async def test_a_full_queue_halves_the_limit_and_successes_restore_it() -> None:
    limit = ConcurrencyLimit(8)
    for _ in range(8):
        await limit.acquire(Priority.NORMAL)
    limit.shrink()
    for _ in range(4):
        limit.release()
    waiting = asyncio.create_task(limit.acquire(Priority.NORMAL))
    await asyncio.sleep(0)
    assert (limit.used, waiting.done()) == (4, False)
    for _ in range(40):
        limit.note_success(60.0)
    await waiting
    assert limit.limit == 8
    for _ in range(5):
        limit.shrink()
    assert limit.limit == 1


async def grow() -> Queue:
    """Return a queue of two slots that have become four, with three waiters."""
    queue = Queue(2)
    queue.limit.resize(2, 4)
    for name in "abcdefg":
        await queue.arrive(name, Priority.NORMAL)
    for _ in range(40):
        queue.limit.note_success(QUICK_SECONDS / 2)
    await run_ready_tasks()
    assert (queue.served, queue.limit.limit) == (["a", "b", "c", "d"], 4)
    return queue


async def test_quick_inferences_raise_the_limit_for_waiters_and_slow_ones_lower_it() -> None:
    queue = await grow()
    queue.limit.resize(2, 4)  # as each refresh of the catalogue does
    assert queue.limit.limit == 4
    for expected in (3, 2.5, 2.25):
        queue.limit.note_success(QUICK_SECONDS * 2)
        assert queue.limit.limit == expected
    await queue.release(2)
    assert len(queue.served) == 4
    await queue.close()


async def test_quick_inferences_do_not_raise_the_limit_without_waiters() -> None:
    limit = ConcurrencyLimit(2)
    limit.resize(2, 4)
    for _ in range(40):
        limit.note_success(0.0)
    assert limit.limit == 2


async def test_the_limit_stays_within_the_size_after_a_full_queue() -> None:
    queue = await grow()
    queue.limit.shrink()
    for _ in range(40):
        queue.limit.note_success(0.0)
    assert queue.limit.limit == 2
    await queue.close()


async def test_a_slot_is_free_while_its_result_is_saved() -> None:
    """At most as many results as slots are saved this way; the others keep their slots."""
    queue = Queue(2)
    for name in "abcdef":
        await queue.arrive(name, Priority.NORMAL)
    freed = [queue.limit.release_before_save() for _ in range(3)]
    await run_ready_tasks()
    assert (freed, queue.served, queue.limit.used) == ([True, True, False], ["a", "b", "c", "d"], 2)
    queue.limit.note_saved()
    assert queue.limit.release_before_save()
    await run_ready_tasks()
    assert queue.served == ["a", "b", "c", "d", "e"]
    await queue.close()
