"""How many jobs may wait, and when to try again."""

import asyncio
from collections.abc import Collection
from http import HTTPStatus
from typing import Any
from uuid import UUID

import pytest

from common import ids
from common.errors import DatabaseUnavailable
from services.gateway.errors import Problem
from services.gateway.freshness import FRESH_SECONDS, LONGEST_FRESH
from services.gateway.limit_store import Count, Due, Ended, LimitStore, Queue
from services.gateway.queues import MANY, MOST_SECONDS, UNKNOWN_SECONDS, Queues, estimate

TENANT, OTHER = ids.new(), ids.new()
PER_TENANT, PER_MODEL = 10, 15


class Waiting(LimitStore):
    """Queues without a database, at a time that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0
        self.takes = 0.0  # seconds of each count
        self.begun = asyncio.Event()  # of a count
        self.go = asyncio.Event()  # no count ends before
        self.go.set()
        self.away = False
        self.jobs: dict[Queue, int] = {}
        self.own: dict[Queue, int] = {}
        self.ended: dict[Queue, Ended] = {}
        self.due: dict[Queue, Due] = {}
        self.counted: list[set[Queue]] = []
        self.looks = 0

    def clock(self) -> float:
        return self.now

    async def count_queues(self, queues: Collection[Queue], per_tenant: int, per_model: int) -> dict[Queue, Count]:
        if self.away:
            raise DatabaseUnavailable
        self.counted.append(set(queues))
        self.begun.set()
        await self.go.wait()
        self.now += self.takes
        limits = {queue: self.own.get(queue, per_model if isinstance(queue, str) else per_tenant) for queue in queues}
        return {queue: Count(min(self.jobs.get(queue, 0), limits[queue]), limits[queue]) for queue in queues}

    async def count_ended(self, limit: int) -> dict[Queue, Ended]:
        self.looks += 1
        return self.ended

    async def count_due(self, queues: Collection[Queue], limit: int) -> dict[Queue, Due]:
        self.looks += 1
        return {queue: self.due[queue] for queue in queues if queue in self.due}


@pytest.fixture
def waiting() -> Waiting:
    return Waiting()


@pytest.fixture
def queues(waiting: Waiting) -> Queues:
    return Queues(waiting, PER_TENANT, PER_MODEL, waiting.clock)


async def submit(queues: Queues, count: int, tenant: Any = TENANT, model: str = "echo") -> int:
    """Single jobs, all at once; how many were let in."""
    outcomes = await asyncio.gather(*(queues.admit(tenant, model) for _ in range(count)), return_exceptions=True)
    refused = [outcome for outcome in outcomes if isinstance(outcome, Problem)]
    assert {(each.status, each.code) for each in refused} <= {(HTTPStatus.TOO_MANY_REQUESTS, "queue_full")}
    assert all(outcome is None or isinstance(outcome, Problem) for outcome in outcomes)
    return count - len(refused)


async def test_those_who_submit_at_once_share_one_count_and_its_room(waiting: Waiting, queues: Queues) -> None:
    waiting.jobs[TENANT] = 7
    assert await submit(queues, 50) == 3
    assert waiting.counted == [{TENANT, "echo"}]


async def test_what_was_let_in_counts_until_the_next_count_shows_it(waiting: Waiting, queues: Queues) -> None:
    assert await submit(queues, 6) == 6
    assert await submit(queues, 6) == 4
    waiting.now = FRESH_SECONDS - 0.01
    assert await submit(queues, 1) == 0
    waiting.now = 2 * FRESH_SECONDS
    waiting.jobs[TENANT] = 8
    assert await submit(queues, 6) == 2
    assert len(waiting.counted) == 2


async def test_nobody_waits_for_a_count_while_the_last_one_is_good_enough(waiting: Waiting, queues: Queues) -> None:
    assert await submit(queues, 3) == 3
    waiting.now, waiting.jobs[TENANT] = FRESH_SECONDS, 7
    waiting.go.clear()
    waiting.begun.clear()
    assert await submit(queues, 4) == 4
    await asyncio.wait_for(waiting.begun.wait(), 5)
    assert await submit(queues, 2) == 2  # after the count began, so it does not show them
    assert waiting.counted == [{TENANT, "echo"}] * 2
    waiting.go.set()
    await asyncio.gather(*queues.tasks)
    assert await submit(queues, 4) == 1


async def test_where_nothing_can_be_counted_the_last_count_serves_only_so_long(
    queues: Queues, waiting: Waiting
) -> None:
    await submit(queues, 1)
    waiting.now, waiting.away = FRESH_SECONDS, True
    await queues.admit(TENANT, "echo")
    await asyncio.gather(*queues.tasks)
    await queues.admit(TENANT, "echo")
    waiting.now = 2 * FRESH_SECONDS
    with pytest.raises(DatabaseUnavailable):
        await queues.admit(TENANT, "echo")


async def test_a_tenant_has_its_own_limit_and_a_model_one_for_all(waiting: Waiting, queues: Queues) -> None:
    waiting.own[OTHER] = 100
    assert await submit(queues, 20, OTHER) == PER_MODEL
    assert await submit(queues, 1) == 0
    assert await submit(queues, 20, model="ocr") == PER_TENANT
    with pytest.raises(Problem, match="the model 'echo' is full: 15 jobs"):
        await queues.admit(OTHER, "echo")
    with pytest.raises(Problem, match="this tenant is full: 10 jobs"):
        await queues.admit(TENANT, "ocr")


async def test_many_jobs_are_let_in_together_or_not_at_all(queues: Queues) -> None:
    await queues.admit(TENANT, "echo", PER_TENANT - 1)
    with pytest.raises(Problem):
        await queues.admit(TENANT, "echo", 2)
    assert await submit(queues, 3) == 1


async def test_what_can_never_be_let_in_is_not_asked_to_come_again(waiting: Waiting, queues: Queues) -> None:
    waiting.own[OTHER] = 0  # a pause that an operator ends
    for tenant, jobs, status in ((TENANT, PER_TENANT + 1, 422), (OTHER, 1, 429)):
        with pytest.raises(Problem) as caught:
            await queues.admit(tenant, "echo", jobs)
        assert (caught.value.status, "Retry-After" in caught.value.headers) == (status, status == 429)


@pytest.mark.parametrize(("takes", "good_for"), [(0.01, FRESH_SECONDS), (0.3, 6.0), (10.0, LONGEST_FRESH)])
async def test_what_is_dear_to_count_is_counted_less_often(
    waiting: Waiting, queues: Queues, takes: float, good_for: float
) -> None:
    waiting.takes = takes
    await submit(queues, 1)
    counted_at = waiting.now
    waiting.now = counted_at + good_for - 0.01
    await submit(queues, 1)
    assert (len(waiting.counted), queues.tasks) == (1, set())
    waiting.now = counted_at + good_for + 0.01
    await submit(queues, 1)
    await asyncio.gather(*queues.tasks)
    assert len(waiting.counted) == 2


async def test_queues_that_nobody_asks_for_are_forgotten(waiting: Waiting, queues: Queues) -> None:
    for _ in range(MANY):
        await queues.admit(ids.new(), "echo")
        waiting.jobs.clear()
        waiting.now += 0.0001
        queues.levels["echo"].jobs = 0
    assert len(queues.levels) == MANY + 1
    waiting.now += 2 * FRESH_SECONDS
    await submit(queues, 1)
    assert queues.levels.keys() == {TENANT, "echo"}


async def test_retry_after_follows_what_ended_lately_and_what_is_due_looked_up_once_a_second(
    waiting: Waiting, queues: Queues
) -> None:
    waiting.jobs = dict.fromkeys((TENANT, OTHER), PER_TENANT)
    waiting.ended[TENANT] = Ended(2, 30.0)
    waiting.due[OTHER] = Due(0, 20.0)

    async def told(tenant: UUID = TENANT) -> str:
        with pytest.raises(Problem) as caught:
            await queues.admit(tenant, "echo")
        return caught.value.headers["Retry-After"]

    assert [await told() for _ in range(5)] == ["15"] * 5
    assert waiting.looks == 2
    assert [await told(OTHER) for _ in range(5)] == ["20"] * 5
    waiting.ended, waiting.due = {TENANT: Ended(2, 60.0)}, {OTHER: Due(0, 10.0)}
    assert (await told(), await told(OTHER), waiting.looks) == ("15", "20", 3)
    waiting.now = FRESH_SECONDS
    assert (await told(), await told(OTHER), waiting.looks) == ("30", "10", 6)
    await asyncio.gather(*queues.tasks)


@pytest.mark.parametrize(
    ("excess", "ended", "due", "seconds"),
    [
        (1, None, Due(0, None), UNKNOWN_SECONDS),
        (1, Ended(100, 1.0), Due(9, None), 1),
        (150, Ended(100, 1.0), Due(200, None), 2),
        (10, Ended(4, 60.0), Due(9, None), 150),
        (1, Ended(1, 0.0), Due(9, None), 1),
        (1, Ended(1, -0.5), Due(9, None), 1),
        (1_000_000, Ended(1, 60.0), Due(9, None), MOST_SECONDS),
        (1, None, Due(0, 7.5), 8),  # all that waits does so for its time: what ended says nothing
        (1, Ended(1, 60.0), Due(0, 7.5), 8),
        (1, Ended(100, 1.0), Due(0, 86_400.0), MOST_SECONDS),
        (1, Ended(100, 1.0), Due(1, 1800.0), 1),  # the one that is due makes room
        (2, Ended(100, 1.0), Due(1, 1800.0), 1800),
        (2, Ended(1, 60.0), Due(1, 7.5), 120),
        (2, None, Due(1, 7.5), UNKNOWN_SECONDS),
        (1, Ended(100, 1.0), Due(0, 3600.0, whole=False), 1),  # others of the queue do run
        (1, None, Due(0, 1800.0, whole=False), 1800),
    ],
)
def test_the_estimate_is_how_long_so_many_take_to_leave(
    excess: int, ended: Ended | None, due: Due, seconds: int
) -> None:
    assert estimate(excess, ended, due) == seconds
