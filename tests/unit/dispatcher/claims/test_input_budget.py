"""How many bytes of inputs a claim may load."""

import asyncio

import pytest

from common.job_states import Priority
from services.dispatcher.claims import input_budget as module
from services.dispatcher.claims.input_budget import InputBudget, Room

ECHO, OTHER = ("echo", Priority.NORMAL), ("other", Priority.NORMAL)
TOTAL = 1600  # 1200 for one queue, 300 for a usual claim, 12 for jobs that pass


@pytest.fixture
def budget() -> InputBudget:
    return InputBudget(TOTAL)


def load(budget: InputBudget, queue: module.Queue, *, in_turn: int | None = None) -> Room:
    """Load jobs in turn: this many bytes, or all that there is room for."""
    room = budget.reserve(queue)
    loaded = Room(room.in_turn if in_turn is None else in_turn, 0)
    budget.release(queue, Room(room.in_turn - loaded.in_turn, room.passing))
    return loaded


async def start_waiting(budget: InputBudget) -> "asyncio.Task[None]":
    task = asyncio.create_task(budget.wait(ECHO))
    await asyncio.sleep(0)
    return task


async def test_a_queue_waits_while_it_holds_its_share(budget: InputBudget) -> None:
    for _ in range(4):
        assert load(budget, ECHO) == Room(300, 0)
    assert budget.reserve(ECHO).in_turn == 0
    waiting = await start_waiting(budget)
    assert load(budget, OTHER) == Room(300, 0)  # never waits with nothing held
    budget.note_end(OTHER, Room(300, 0))
    budget.note_end(ECHO, Room(299, 0))
    await asyncio.sleep(0)
    assert not waiting.done()
    budget.note_end(ECHO, Room(20, 0))
    await waiting
    assert budget.reserve(ECHO).in_turn == 300


async def test_a_large_job_gets_room_before_the_jobs_behind_it(budget: InputBudget) -> None:
    load(budget, ECHO, in_turn=100)
    budget.note_next(ECHO, 900)
    assert load(budget, ECHO) == Room(900, 0)
    budget.note_next(ECHO, 450)
    waiting = await start_waiting(budget)
    assert not waiting.done()
    budget.note_end(ECHO, Room(900, 0))
    await waiting
    assert budget.reserve(ECHO).in_turn == 450
    budget.note_next(ECHO, None)
    assert budget.reserve(ECHO).in_turn == 300


async def test_a_claim_takes_the_room_that_there_is(budget: InputBudget) -> None:
    load(budget, ECHO, in_turn=100)
    budget.note_next(ECHO, 1200)
    assert budget.reserve(ECHO).in_turn == 1100


async def test_small_jobs_always_find_room(budget: InputBudget) -> None:
    budget.note_next(OTHER, 2 * TOTAL)
    assert budget.reserve(OTHER) == (2 * TOTAL, TOTAL // module.PASSING_PART)
    load(budget, ECHO, in_turn=2)
    assert budget.reserve(ECHO).passing == 12
    assert budget.reserve(ECHO) == (0, 0)


async def test_a_job_larger_than_the_budget_runs_alone_in_its_turn(budget: InputBudget) -> None:
    assert budget.reserve(ECHO) == (300, 12)
    budget.release(ECHO, Room(299, 0))
    budget.note_next(ECHO, 10 * TOTAL)
    waiting = await start_waiting(budget)
    assert not waiting.done()
    budget.note_end(ECHO, Room(1, 0))
    await waiting
    assert budget.reserve(ECHO).in_turn == 10 * TOTAL  # beside the jobs that passed it
    assert budget.reserve(OTHER).in_turn == 300


async def test_the_end_of_a_job_that_passed_lets_the_next_one_try(budget: InputBudget) -> None:
    load(budget, ECHO, in_turn=100)
    budget.note_next(ECHO, 10 * TOTAL)
    waiting = await start_waiting(budget)
    load(budget, ECHO, in_turn=0)  # a claim without a job changes nothing
    await asyncio.sleep(0)
    assert not waiting.done()
    budget.note_end(ECHO, Room(0, 5))
    await waiting


async def test_nobody_waits_for_long(budget: InputBudget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    load(budget, ECHO, in_turn=100)
    budget.note_next(ECHO, 10 * TOTAL)
    await budget.wait(ECHO)


async def test_only_one_queue_holds_a_job_beyond_its_share(budget: InputBudget) -> None:
    budget.note_next(ECHO, 5000)
    assert load(budget, ECHO) == Room(5000, 0)
    assert budget.used == 5000
    budget.note_next(OTHER, 5000)
    assert budget.reserve(OTHER).in_turn < 5000
    third = ("third", Priority.LOW)
    assert load(budget, third, in_turn=10) == Room(10, 0)
    assert load(budget, third, in_turn=10) == Room(10, 0)  # as beside any busy queue
    budget.note_end(ECHO, Room(5000, 0))
    assert budget.used < 5000


async def test_another_large_job_follows_the_first(budget: InputBudget) -> None:
    for queue in (ECHO, OTHER):
        budget.note_next(queue, 5000)
    load(budget, OTHER)
    waiting = await start_waiting(budget)
    assert not waiting.done()
    budget.note_end(OTHER, Room(5000, 0))
    await waiting
    assert load(budget, ECHO) == Room(5000, 0)
    budget.note_end(ECHO, Room(5000, 0))
    assert budget.used == 0


FETCHED: module.Queue = ("echo", Priority.NORMAL, "fetched")


async def take(budget: InputBudget, queue: module.Queue, size: int) -> Room:
    """Wait until there is room, and take it."""
    if (room := budget.try_take(queue, size)) is not None:
        return room
    async with budget.turn(queue):
        await budget.wait_for(queue, size)
        found = budget.try_take(queue, size, is_next=True)
    assert found is not None
    return found


async def test_bytes_that_become_known_later_wait_for_room(budget: InputBudget) -> None:
    for _ in range(4):
        load(budget, ECHO)  # 1200 of 1600
    assert await take(budget, FETCHED, 1200) == Room(1200, 0)  # one job of a queue always fits
    waiting = asyncio.create_task(take(budget, FETCHED, 100))
    await asyncio.sleep(0)
    assert await take(budget, FETCHED, 12) == Room(0, 12)  # a few bytes pass it
    assert not waiting.done()
    budget.release(FETCHED, Room(1200, 0))
    assert await waiting == Room(100, 0)
    budget.release(FETCHED, Room(100, 12))
    for _ in range(4):
        budget.note_end(ECHO, Room(300, 0))
    assert budget.used == 0


async def test_a_large_fetched_input_is_not_overtaken(budget: InputBudget) -> None:
    await take(budget, FETCHED, 100)
    large = asyncio.create_task(take(budget, FETCHED, 5000))  # more than there ever is
    await asyncio.sleep(0)
    behind = asyncio.create_task(take(budget, FETCHED, 20))
    await asyncio.sleep(0)
    budget.release(FETCHED, Room(100, 0))
    assert await large == Room(5000, 0)
    assert budget.used == 5000
    assert not behind.done()
    budget.release(FETCHED, Room(5000, 0))
    assert await behind == Room(20, 0)


async def test_a_canceled_wait_takes_nothing(budget: InputBudget) -> None:
    await take(budget, FETCHED, 1200)
    waiting = asyncio.create_task(take(budget, FETCHED, 1000))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    budget.release(FETCHED, Room(1200, 0))
    assert budget.used == 0
    assert await take(budget, FETCHED, 1000) == Room(1000, 0)


async def test_nobody_overtakes_a_job_whose_turn_it_is(budget: InputBudget) -> None:
    held = await take(budget, FETCHED, 20)
    async with budget.turn(FETCHED):
        await budget.wait_for(FETCHED, 1000)
        assert budget.try_take(FETCHED, 100) is None
        for _ in range(3):
            load(budget, OTHER)
        assert budget.try_take(FETCHED, 1000, is_next=True) is None  # others were quicker while it waited for a slot
        budget.note_end(OTHER, Room(900, 0))
        await budget.wait_for(FETCHED, 1000)
        assert budget.try_take(FETCHED, 1000, is_next=True) == Room(1000, 0)
    budget.release(FETCHED, Room(1000 + held.in_turn, 0))
    assert budget.try_take(FETCHED, 100) == Room(100, 0)
