"""How many jobs fetch at a time, and whose."""

import asyncio

import pytest

from common import ids
from services.dispatcher.claims.fetch_permits import FetchParty, FetchPermits

A, B = (ids.new() for _ in range(2))
ECHO, OTHER_MODEL, OTHER_TENANT = FetchParty("echo", A), FetchParty("ocr", A), FetchParty("echo", B)


class Permits:
    """A dispatcher with 16 permits, and the models whose next jobs it announced."""

    def __init__(self, total: int = 16) -> None:
        self.woken: list[str] = []
        self.permits = FetchPermits(total, self.woken.append)

    async def start(self, party: FetchParty, count: int = 1, most: int = 2) -> list["asyncio.Task[None]"]:
        """Let jobs ask for a permit."""
        tasks = [asyncio.create_task(self.permits.acquire(party, most)) for _ in range(count)]
        await asyncio.sleep(0)
        return tasks

    async def count(self, tasks: list["asyncio.Task[None]"]) -> int:
        """Return how many have a permit."""
        await asyncio.sleep(0)
        return sum(task.done() for task in tasks)


@pytest.fixture
def permits() -> Permits:
    return Permits()


async def test_a_tenant_has_few_permits_for_a_model(permits: Permits) -> None:
    jobs = await permits.start(ECHO, 4)
    assert await permits.count(jobs) == 2
    for party in (OTHER_MODEL, OTHER_TENANT):
        assert await permits.count(await permits.start(party, 3)) == 2
    permits.permits.release(ECHO)
    assert await permits.count(jobs) == 3
    assert jobs[2].done()  # the oldest first
    jobs[3].cancel()


async def test_a_tenant_leaves_permits_to_others(permits: Permits) -> None:
    first = await permits.start(ECHO, 20, most=100)
    assert await permits.count(first) == 12
    second = await permits.start(OTHER_TENANT, 20, most=100)
    assert await permits.count(second) == 3
    for task in (*first, *second):
        task.cancel()
    await asyncio.wait([*first, *second])


@pytest.mark.parametrize("total", [1, 2, 3, 4, 8])
async def test_a_tenant_without_a_place_gets_the_last_one(total: int) -> None:
    permits = Permits(total)
    first = await permits.start(ECHO, 10, most=100)
    assert await permits.count(first) == max(1, total * 3 // 4)
    second = await permits.start(OTHER_TENANT, 10, most=100)
    assert await permits.count(second) == min(1, total - 1)
    if total == 1:
        permits.permits.release(ECHO)
        assert (await permits.count(first), await permits.count(second)) == (2, 0)  # the oldest first
    for task in (*first, *second):
        task.cancel()
    await asyncio.wait([*first, *second])


async def test_nothing_is_claimed_of_a_tenant_while_its_job_waits(permits: Permits) -> None:
    jobs = await permits.start(ECHO, 2)
    assert permits.permits.list_waiting("echo") == set()
    jobs += await permits.start(ECHO, 1)
    assert (permits.permits.list_waiting("echo"), permits.permits.list_waiting("ocr")) == ({A}, set())
    permits.permits.note_skipped("echo", {A}, 3)
    for _ in range(3):
        permits.permits.release(ECHO)
        await asyncio.sleep(0)
    assert permits.permits.list_waiting("echo") == set()
    assert permits.woken == ["echo"] * 3  # one claim for each that was skipped
    await permits.start(ECHO)
    permits.permits.release(ECHO)
    assert len(permits.woken) == 3


async def test_a_canceled_job_leaves_no_trace(permits: Permits) -> None:
    jobs = await permits.start(ECHO, 4)
    jobs[2].cancel()
    await asyncio.wait([jobs[2]])
    assert permits.permits.list_waiting("echo") == {A}
    permits.permits.release(ECHO)  # gives the permit to the fourth job, which is canceled before it can take it
    jobs[3].cancel()
    await asyncio.wait([jobs[3]])
    assert jobs[3].cancelled()
    permits.permits.release(ECHO)
    assert permits.permits.list_waiting("echo") == set()
    assert await permits.count(await permits.start(ECHO, 3)) == 2


async def test_every_skipped_claim_is_made_up_for(permits: Permits) -> None:
    jobs = await permits.start(ECHO, 3)
    permits.permits.note_skipped("echo", {A}, 10)
    for _ in range(3):  # all end before the next ones are claimed
        permits.permits.release(ECHO)
    assert await permits.count(jobs) == len(permits.woken) == 3
    for woken in (4, 5, 6):
        await permits.start(ECHO)
        permits.permits.release(ECHO)
        assert len(permits.woken) == woken
    for _ in range(10):
        await permits.start(ECHO)
        permits.permits.release(ECHO)
    assert len(permits.woken) == 10
    assert not permits.permits._skipped


async def test_nobody_is_woken_while_jobs_of_the_tenant_wait(permits: Permits) -> None:
    jobs = await permits.start(ECHO, 4)
    permits.permits.note_skipped("echo", {A}, 10)
    permits.permits.release(ECHO)
    assert permits.woken == []
    jobs[3].cancel()
    await asyncio.wait([jobs[3]])
    assert len(permits.woken) == 1  # the next one waits as it did


async def test_a_tenant_that_waited_for_others_gets_all_its_permits(permits: Permits) -> None:
    others = [FetchParty("echo", ids.new()) for _ in range(16)]
    for other in others:
        await permits.start(other)
    waiting = await permits.start(ECHO, 2, most=5)
    permits.permits.note_skipped("echo", {A}, 10)
    waiting[0].cancel()
    await asyncio.wait([waiting[0]])
    assert permits.woken == []
    permits.permits.release(others[0])
    assert (await permits.count(waiting[1:]), len(permits.woken)) == (1, 4)
    permits.permits.note_skipped("echo", {A}, 1)  # of a claim that began while it waited
    assert len(permits.woken) == 11


async def test_a_cancelled_wait_for_others_wakes_its_successors(permits: Permits) -> None:
    for _ in range(16):
        await permits.start(FetchParty("echo", ids.new()))
    waiting = await permits.start(ECHO, 2, most=5)
    permits.permits.note_skipped("echo", {A}, 10)
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    assert permits.woken == ["echo"] * 5
