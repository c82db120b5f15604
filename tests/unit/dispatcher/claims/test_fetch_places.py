"""How many jobs fetch at a time, and whose."""

import asyncio

import pytest

from common import ids
from services.dispatcher.claims.fetch_places import FetchParty, FetchPlaces

A, B = (ids.new() for _ in range(2))
ECHO, OTHER_MODEL, OTHER_TENANT = FetchParty("echo", A), FetchParty("ocr", A), FetchParty("echo", B)


class Places:
    """A dispatcher with 16 places, and the models whose next jobs it announced."""

    def __init__(self, total: int = 16) -> None:
        self.woken: list[str] = []
        self.places = FetchPlaces(total, self.woken.append)

    async def start(self, party: FetchParty, count: int = 1, most: int = 2) -> list["asyncio.Task[None]"]:
        """Let jobs ask for a place."""
        tasks = [asyncio.create_task(self.places.acquire(party, most)) for _ in range(count)]
        await asyncio.sleep(0)
        return tasks

    async def count(self, tasks: list["asyncio.Task[None]"]) -> int:
        """Return how many have a place."""
        await asyncio.sleep(0)
        return sum(task.done() for task in tasks)


@pytest.fixture
def places() -> Places:
    return Places()


async def test_a_tenant_has_few_places_for_a_model(places: Places) -> None:
    jobs = await places.start(ECHO, 4)
    assert await places.count(jobs) == 2
    for party in (OTHER_MODEL, OTHER_TENANT):
        assert await places.count(await places.start(party, 3)) == 2
    places.places.release(ECHO)
    assert await places.count(jobs) == 3
    assert jobs[2].done()  # the oldest first
    jobs[3].cancel()


async def test_a_tenant_leaves_places_to_others(places: Places) -> None:
    first = await places.start(ECHO, 20, most=100)
    assert await places.count(first) == 12
    second = await places.start(OTHER_TENANT, 20, most=100)
    assert await places.count(second) == 3
    for task in (*first, *second):
        task.cancel()
    await asyncio.wait([*first, *second])


@pytest.mark.parametrize("total", [1, 2, 3, 4, 8])
async def test_a_tenant_without_a_place_gets_the_last_one(total: int) -> None:
    places = Places(total)
    first = await places.start(ECHO, 10, most=100)
    assert await places.count(first) == max(1, total * 3 // 4)
    second = await places.start(OTHER_TENANT, 10, most=100)
    assert await places.count(second) == min(1, total - 1)
    if total == 1:
        places.places.release(ECHO)
        assert (await places.count(first), await places.count(second)) == (2, 0)  # the oldest first
    for task in (*first, *second):
        task.cancel()
    await asyncio.wait([*first, *second])


async def test_nothing_is_claimed_of_a_tenant_while_its_job_waits(places: Places) -> None:
    jobs = await places.start(ECHO, 2)
    assert places.places.list_waiting("echo") == set()
    jobs += await places.start(ECHO, 1)
    assert (places.places.list_waiting("echo"), places.places.list_waiting("ocr")) == ({A}, set())
    places.places.note_skipped("echo", {A}, 3)
    for _ in range(3):
        places.places.release(ECHO)
        await asyncio.sleep(0)
    assert places.places.list_waiting("echo") == set()
    assert places.woken == ["echo"] * 3  # one claim for each that was skipped
    await places.start(ECHO)
    places.places.release(ECHO)
    assert len(places.woken) == 3


async def test_a_canceled_job_leaves_no_trace(places: Places) -> None:
    jobs = await places.start(ECHO, 4)
    jobs[2].cancel()
    await asyncio.wait([jobs[2]])
    assert places.places.list_waiting("echo") == {A}
    places.places.release(ECHO)  # gives the place to the fourth job, which is canceled before it can take it
    jobs[3].cancel()
    await asyncio.wait([jobs[3]])
    assert jobs[3].cancelled()
    places.places.release(ECHO)
    assert places.places.list_waiting("echo") == set()
    assert await places.count(await places.start(ECHO, 3)) == 2


async def test_every_skipped_claim_is_made_up_for(places: Places) -> None:
    jobs = await places.start(ECHO, 3)
    places.places.note_skipped("echo", {A}, 10)
    for _ in range(3):  # all end before the next ones are claimed
        places.places.release(ECHO)
    assert await places.count(jobs) == len(places.woken) == 3
    for woken in (4, 5, 6):
        await places.start(ECHO)
        places.places.release(ECHO)
        assert len(places.woken) == woken
    for _ in range(10):
        await places.start(ECHO)
        places.places.release(ECHO)
    assert len(places.woken) == 10
    assert not places.places._skipped


async def test_nobody_is_woken_while_jobs_of_the_tenant_wait(places: Places) -> None:
    jobs = await places.start(ECHO, 4)
    places.places.note_skipped("echo", {A}, 10)
    places.places.release(ECHO)
    assert places.woken == []
    jobs[3].cancel()
    await asyncio.wait([jobs[3]])
    assert len(places.woken) == 1  # the next one waits as it did


async def test_a_tenant_that_waited_for_others_gets_all_its_places(places: Places) -> None:
    others = [FetchParty("echo", ids.new()) for _ in range(16)]
    for other in others:
        await places.start(other)
    waiting = await places.start(ECHO, 2, most=5)
    places.places.note_skipped("echo", {A}, 10)
    waiting[0].cancel()
    await asyncio.wait([waiting[0]])
    assert places.woken == []
    places.places.release(others[0])
    assert (await places.count(waiting[1:]), len(places.woken)) == (1, 4)
    places.places.note_skipped("echo", {A}, 1)  # of a claim that began while it waited
    assert len(places.woken) == 11


async def test_a_cancelled_wait_for_others_wakes_its_successors(places: Places) -> None:
    for _ in range(16):
        await places.start(FetchParty("echo", ids.new()))
    waiting = await places.start(ECHO, 2, most=5)
    places.places.note_skipped("echo", {A}, 10)
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    assert places.woken == ["echo"] * 5
