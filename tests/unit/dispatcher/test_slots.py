"""Whose turn it is, and that no slot is ever lost."""

import asyncio
from collections.abc import Awaitable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.jobs import Priority
from services.dispatcher.slots import HANDICAPS, QUICK_SECONDS, Slots
from tests.unit.clock import Clock


class Queue:
    """Waiters for slots, which note the order in which they were served."""

    def __init__(self, size: int) -> None:
        self.clock = Clock()
        self.slots = Slots(size, self.clock)
        self.served: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def arrive(self, name: str, priority: Priority) -> None:
        async def wait() -> None:
            await self.slots.acquire(priority)
            self.served.append(name)

        self.tasks[name] = asyncio.create_task(wait())
        await settle()

    async def release(self, count: int = 1) -> None:
        for _ in range(count):
            self.slots.release()
            await settle()

    async def close(self) -> None:
        for task in self.tasks.values():
            task.cancel()
        await settle()


async def settle() -> None:
    """Lets every task run that can."""
    for _ in range(5):
        await asyncio.sleep(0)


async def cancelled(task: Awaitable[None]) -> None:
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_slots_are_held_up_to_the_size() -> None:
    queue = Queue(2)
    for name in "abc":
        await queue.arrive(name, Priority.NORMAL)
    assert queue.served == ["a", "b"]
    await queue.release()
    assert queue.served == ["a", "b", "c"]


async def test_a_free_slot_takes_the_highest_class_and_in_it_the_oldest() -> None:
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
async def test_who_has_waited_out_the_handicap_goes_before_a_higher_class(priority: Priority) -> None:
    queue = Queue(1)
    await queue.arrive("holder", Priority.HIGH)
    await queue.arrive("old", priority)
    queue.clock.now = HANDICAPS[priority] - 0.1
    await queue.arrive("high, in time", Priority.HIGH)
    queue.clock.now = HANDICAPS[priority] + 0.1
    await queue.arrive("high, too late", Priority.HIGH)
    await queue.release(3)
    assert queue.served[1:] == ["high, in time", "old", "high, too late"]


async def test_low_is_not_starved_behind_an_endless_queue_of_a_higher_class() -> None:
    """Each queue hands over as much as its prefetch allows, and the next one as soon as one is done with."""
    queue = Queue(4)
    for number in range(4):
        await queue.arrive(f"holder {number}", Priority.HIGH)
    await queue.arrive("low 1", Priority.LOW)
    await queue.arrive("low 2", Priority.LOW)
    for second in range(100):
        queue.clock.now = float(second)
        await queue.arrive(f"high {second}", Priority.HIGH)
        if second > 2:  # two always wait
            await queue.release()
    low = [queue.served.index(name) - 4 for name in ("low 1", "low 2")]
    assert HANDICAPS[Priority.LOW] - 2 <= low[0] < low[1] <= HANDICAPS[Priority.LOW] + 2


async def test_a_newcomer_does_not_overtake_those_who_wait() -> None:
    queue = Queue(1)
    await queue.arrive("holder", Priority.NORMAL)
    await queue.arrive("waiting", Priority.LOW)
    queue.slots.release()  # the slot is given to "waiting", who has not run yet
    await queue.arrive("newcomer", Priority.HIGH)
    assert queue.served == ["holder", "waiting"]


async def test_growing_serves_those_who_wait() -> None:
    queue = Queue(1)
    for name in "abcd":
        await queue.arrive(name, Priority.NORMAL)
    queue.slots.resize(3)
    await settle()
    assert queue.served == ["a", "b", "c"]


async def test_shrinking_takes_slots_back_as_they_are_released() -> None:
    queue = Queue(3)
    for name in "abcd":
        await queue.arrive(name, Priority.NORMAL)
    queue.slots.resize(1)
    await queue.release(2)
    assert queue.served == ["a", "b", "c"]
    await queue.release()
    assert queue.served == ["a", "b", "c", "d"]
    assert queue.slots.used == 1


async def test_a_waiter_that_is_cancelled_takes_no_slot() -> None:
    queue = Queue(1)
    for name in "abc":
        await queue.arrive(name, Priority.NORMAL)
    queue.tasks["b"].cancel()
    await cancelled(queue.tasks["b"])
    await queue.release()
    assert queue.served == ["a", "c"]
    await queue.release()
    assert queue.slots.used == 0


async def test_a_waiter_cancelled_in_the_moment_of_its_turn_passes_the_slot_on() -> None:
    queue = Queue(1)
    for name in "abc":
        await queue.arrive(name, Priority.NORMAL)
    queue.slots.release()  # hands the slot to b …
    queue.tasks["b"].cancel()  # … which is cancelled before it can run
    await cancelled(queue.tasks["b"])
    await settle()
    assert queue.served == ["a", "c"]
    await queue.release()
    assert queue.slots.used == 0


Step = tuple[str, int]
STEPS = st.lists(
    st.tuples(st.sampled_from(["arrive", "arrive", "cancel", "release", "resize"]), st.integers(0, 7)), max_size=40
)


@given(steps=STEPS, lazily=st.booleans())
@settings(deadline=None)
def test_no_slot_is_lost_or_doubled_whatever_happens(steps: list[Step], lazily: bool) -> None:
    """`lazily`: tasks run only at the end, so that several things happen to a waiter in one moment."""

    async def play() -> None:
        slots = Slots(2)
        tasks: list[asyncio.Task[None]] = []
        released = 0
        for action, number in steps:
            match action:
                case "arrive":
                    tasks.append(asyncio.create_task(slots.acquire(list(Priority)[number % 3])))
                case "cancel" if tasks:
                    tasks[number % len(tasks)].cancel()
                case "resize":
                    slots.resize(number)
                case "release" if released < count_holders(tasks):
                    slots.release()
                    released += 1
            if not lazily:
                await settle()
        await settle()
        assert slots.used == count_holders(tasks) - released
        slots.resize(len(tasks) + released)
        await settle()
        assert all(task.done() for task in tasks)
        assert slots.used == count_holders(tasks) - released

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(play())


def count_holders(tasks: list[asyncio.Task[None]]) -> int:
    return sum(task.done() and not task.cancelled() for task in tasks)


async def test_a_full_queue_halves_what_runs_at_once_and_success_brings_it_back() -> None:
    slots = Slots(8)
    for _ in range(8):
        await slots.acquire(Priority.NORMAL)
    slots.shrink()
    for _ in range(4):
        slots.release()
    waiting = asyncio.create_task(slots.acquire(Priority.NORMAL))
    await asyncio.sleep(0)
    assert (slots.used, waiting.done()) == (4, False)
    for _ in range(40):
        slots.pace(60.0)
    await waiting
    assert slots.limit == 8
    for _ in range(5):
        slots.shrink()
    assert slots.limit == 1


async def grow() -> Queue:
    """Two slots that have become four, and three who wait."""
    queue = Queue(2)
    queue.slots.resize(2, 4)
    for name in "abcdefg":
        await queue.arrive(name, Priority.NORMAL)
    for _ in range(40):
        queue.slots.pace(QUICK_SECONDS / 2)
    await settle()
    assert (queue.served, queue.slots.limit) == (["a", "b", "c", "d"], 4)
    return queue


async def test_quick_answers_make_room_for_those_who_wait_and_slow_ones_take_it_back() -> None:
    queue = await grow()
    queue.slots.resize(2, 4)  # as Triton's models are looked at again
    assert queue.slots.limit == 4
    for limit in (3, 2.5, 2.25):
        queue.slots.pace(QUICK_SECONDS * 2)
        assert queue.slots.limit == limit
    await queue.release(2)
    assert len(queue.served) == 4
    await queue.close()


async def test_quick_answers_make_no_room_that_nobody_waits_for() -> None:
    slots = Slots(2)
    slots.resize(2, 4)
    for _ in range(40):
        slots.pace(0.0)
    assert slots.limit == 2


async def test_a_server_whose_queue_was_full_is_given_no_more_than_the_size() -> None:
    queue = await grow()
    queue.slots.shrink()
    for _ in range(40):
        queue.slots.pace(0.0)
    assert queue.slots.limit == 2
    await queue.close()


async def test_a_slot_is_free_while_its_result_is_written_down() -> None:
    """But no more results wait than there are slots: the others keep theirs."""
    queue = Queue(2)
    for name in "abcdef":
        await queue.arrive(name, Priority.NORMAL)
    freed = [queue.slots.settle() for _ in range(3)]
    await settle()
    assert (freed, queue.served, queue.slots.used) == ([True, True, False], ["a", "b", "c", "d"], 2)
    queue.slots.settling -= 1
    assert queue.slots.settle()
    await settle()
    assert queue.served == ["a", "b", "c", "d", "e"]
    await queue.close()
