"""How many bytes of inputs a claim may load."""

import asyncio

import pytest

from common.jobs import Priority
from services.dispatcher.claims import input_budget as module
from services.dispatcher.claims.input_budget import InputBudget

ECHO, OTHER = ("echo", Priority.NORMAL), ("other", Priority.NORMAL)
TOTAL = 1600  # 1200 for one queue, 300 for a usual claim


@pytest.fixture
def budget() -> InputBudget:
    return InputBudget(TOTAL)


async def reserve(budget: InputBudget, queue: module.Queue = ECHO) -> "asyncio.Task[int]":
    """Reserve in a task. It is done on return, or waits."""
    task = asyncio.create_task(budget.reserve(queue))
    await asyncio.sleep(0)
    return task


async def test_a_queue_waits_while_it_holds_its_share(budget: InputBudget) -> None:
    for _ in range(4):
        assert await budget.reserve(ECHO) == 300
    waiting = await reserve(budget)
    assert not waiting.done()
    assert await budget.reserve(OTHER) == 300  # never waits with nothing held
    budget.release(OTHER, 300)
    budget.release(ECHO, 299)
    await asyncio.sleep(0)
    assert not waiting.done()
    budget.release(ECHO, 1)
    assert await waiting == 300
    assert budget.used == 1200


async def test_a_large_job_gets_room_before_the_jobs_behind_it(budget: InputBudget) -> None:
    budget.release(ECHO, await budget.reserve(ECHO) - 100)  # a small job
    budget.note_next(ECHO, 900)
    assert budget.limit_count(ECHO, 50, 900) == 1
    assert await budget.reserve(ECHO) == 900
    budget.note_next(ECHO, 450)
    assert budget.limit_count(ECHO, 50, 450) == 1
    waiting = await reserve(budget)
    assert not waiting.done()
    budget.release(ECHO, 900)
    assert await waiting == 450
    budget.note_next(ECHO, None)
    assert budget.limit_count(ECHO, 50, 300) == 50


async def test_a_claim_soon_takes_the_room_that_there_is(budget: InputBudget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    budget.release(ECHO, await budget.reserve(ECHO) - 100)
    budget.note_next(ECHO, 1200)
    assert await budget.reserve(ECHO) == 1100
    assert budget.limit_count(ECHO, 50, 1100) == 1


async def test_a_queue_always_finds_room_for_small_jobs(budget: InputBudget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    budget.note_next(OTHER, 2 * TOTAL)
    assert await budget.reserve(OTHER) == 2 * TOTAL
    budget.release(ECHO, await budget.reserve(ECHO) - 2)
    assert [await budget.reserve(ECHO), budget.used] == [TOTAL // module.OWN_PART - 2, 2 * TOTAL + 12]


async def test_a_job_larger_than_the_budget_runs_alone_in_its_queue(budget: InputBudget) -> None:
    held = await budget.reserve(OTHER)
    budget.release(ECHO, await budget.reserve(ECHO) - 1)
    budget.note_next(ECHO, 10 * TOTAL)
    waiting = await reserve(budget)
    assert not waiting.done()
    budget.release(ECHO, 1)
    assert await waiting == 10 * TOTAL
    budget.release(OTHER, held)
    assert await budget.reserve(OTHER) == 300


async def test_many_small_jobs_of_known_size_are_asked_for_together(budget: InputBudget) -> None:
    budget.note_next(ECHO, 60)
    assert [budget.limit_count(ECHO, count, 300) for count in (3, 50)] == [3, 5]


async def test_nobody_waits_for_ever(budget: InputBudget, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(4):
        await budget.reserve(ECHO)
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(module, "ROOM_SECONDS", 0.01)
    assert await budget.reserve(ECHO) == 0
    monkeypatch.setattr(module, "ROOM_SECONDS", 60.0)
    waiting = await reserve(budget)
    budget.close()
    assert await waiting == 0
    assert await budget.reserve(OTHER) == 0
