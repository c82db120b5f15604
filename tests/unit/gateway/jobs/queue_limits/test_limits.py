"""How many jobs may wait, and the Retry-After of a full queue."""

import asyncio
from collections.abc import Collection
from http import HTTPStatus
from typing import Any

import pytest

from common import ids
from common.errors import DatabaseUnavailable
from services.gateway.http.problems import Problem
from services.gateway.jobs.queue_limits.limits import (
    DEFAULT_RETRY_SECONDS,
    FIRST_RETRY_SECONDS,
    MAX_CACHED_QUEUES,
    MAX_RETRY_SECONDS,
    QueueLimits,
    estimate_wait,
    limit_share,
)
from services.gateway.jobs.queue_limits.store import Queue, QueueCount, QueueLimitStore
from services.gateway.models.freshness import FRESH_SECONDS, LONGEST_FRESH
from tests.unit.clock import LATE

TENANT, OTHER = ids.new(), ids.new()
PER_TENANT, PER_MODEL = 10, 15
MAX_BYTES = 1000


class FakeStore(QueueLimitStore):
    """Counts without a database, and a clock that the test sets."""

    def __init__(self) -> None:
        self.now = 0.0
        self.seconds = 0.0  # seconds of each count
        self.begun = asyncio.Event()  # set when a count begins
        self.go = asyncio.Event()  # no count ends before it is set
        self.go.set()
        self.is_down = False
        self.jobs: dict[Queue, int] = {}
        self.bytes: dict[Queue, int] = {}
        self.own: dict[Queue, int] = {}
        self.counted: list[set[Queue]] = []

    def clock(self) -> float:
        return self.now

    async def count_queues(self, queues: Collection[Queue], per_tenant: int, per_model: int) -> dict[Queue, QueueCount]:
        if self.is_down:
            raise DatabaseUnavailable
        self.counted.append(set(queues))
        self.begun.set()
        await self.go.wait()
        self.now += self.seconds
        most = {queue: self.own.get(queue, per_model if isinstance(queue, str) else per_tenant) for queue in queues}
        return {
            queue: QueueCount(min(self.jobs.get(queue, 0), most[queue]), most[queue], self.bytes.get(queue, 0))
            for queue in queues
        }


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


@pytest.fixture
def limits(store: FakeStore) -> QueueLimits:
    return QueueLimits(store, PER_TENANT, PER_MODEL, MAX_BYTES, store.clock)


async def submit(limits: QueueLimits, count: int, tenant: Any = TENANT, model: str = "echo") -> int:
    """Submit single jobs concurrently. Return how many were admitted."""
    outcomes = await asyncio.gather(*(limits.admit(tenant, model) for _ in range(count)), return_exceptions=True)
    refused = [outcome for outcome in outcomes if isinstance(outcome, Problem)]
    assert {(each.status, each.code) for each in refused} <= {(HTTPStatus.TOO_MANY_REQUESTS, "queue_full")}
    assert all(outcome is None or isinstance(outcome, Problem) for outcome in outcomes)
    return count - len(refused)


async def test_concurrent_submits_share_one_count(store: FakeStore, limits: QueueLimits) -> None:
    store.jobs[TENANT] = 7
    assert await submit(limits, 50) == 3
    assert store.counted == [{TENANT, "echo"}]


async def test_admitted_jobs_count_until_the_next_count_includes_them(store: FakeStore, limits: QueueLimits) -> None:
    assert await submit(limits, 6) == 6
    assert await submit(limits, 6) == 4
    store.now = FRESH_SECONDS - 0.01
    assert await submit(limits, 1) == 0
    store.now = 2 * FRESH_SECONDS
    store.jobs[TENANT] = 8
    assert await submit(limits, 6) == 2
    assert len(store.counted) == 2


async def test_no_submit_waits_while_the_last_count_is_valid(store: FakeStore, limits: QueueLimits) -> None:
    assert await submit(limits, 3) == 3
    store.now, store.jobs[TENANT] = FRESH_SECONDS, 7
    store.go.clear()
    store.begun.clear()
    assert await submit(limits, 4) == 4
    await asyncio.wait_for(store.begun.wait(), LATE)
    assert await submit(limits, 2) == 2  # after the count began, so it does not include them
    assert store.counted == [{TENANT, "echo"}] * 2
    store.go.set()
    await asyncio.gather(*limits._tasks)
    assert await submit(limits, 4) == 1


async def test_without_a_database_the_last_count_expires(limits: QueueLimits, store: FakeStore) -> None:
    await submit(limits, 1)
    store.now, store.is_down = FRESH_SECONDS, True
    await limits.admit(TENANT, "echo")
    await asyncio.gather(*limits._tasks)
    await limits.admit(TENANT, "echo")
    store.now = 2 * FRESH_SECONDS
    with pytest.raises(DatabaseUnavailable):
        await limits.admit(TENANT, "echo")


async def test_a_tenant_may_have_its_own_limit(store: FakeStore, limits: QueueLimits) -> None:
    store.own[OTHER] = 100
    assert await submit(limits, 20, OTHER) == PER_MODEL
    assert await submit(limits, 1) == 0
    assert await submit(limits, 20, model="ocr") == PER_TENANT
    with pytest.raises(Problem, match="the model 'echo' is full: at most 15 jobs"):
        await limits.admit(OTHER, "echo")
    with pytest.raises(Problem, match="this tenant is full: at most 10 jobs"):
        await limits.admit(TENANT, "ocr")


async def test_jobs_are_admitted_together_or_not_at_all(limits: QueueLimits) -> None:
    await limits.admit(TENANT, "echo", PER_TENANT - 1)
    with pytest.raises(Problem):
        await limits.admit(TENANT, "echo", 2)
    assert await submit(limits, 3) == 1


async def test_the_inputs_of_a_tenant_have_a_limit_in_bytes(store: FakeStore, limits: QueueLimits) -> None:
    store.bytes[TENANT] = 500
    await limits.admit(TENANT, "echo", size=400)
    with pytest.raises(Problem, match="this tenant is full: inputs of at most 1000 bytes may wait") as caught:
        await limits.admit(TENANT, "echo", size=101)
    assert (caught.value.status, caught.value.code) == (HTTPStatus.TOO_MANY_REQUESTS, "queue_full")
    assert caught.value.headers["Retry-After"] == str(FIRST_RETRY_SECONDS)
    await limits.admit(TENANT, "ocr", size=100)
    await limits.admit(OTHER, "echo", size=MAX_BYTES)
    store.now, store.bytes[TENANT] = 5.0, 800  # 200 bytes left in 5 s
    await limits.admit(TENANT, "echo", size=100)
    with pytest.raises(Problem) as caught:
        await limits.admit(TENANT, "echo", size=900)
    assert caught.value.headers["Retry-After"] == "20"  # until 800 more have left
    with pytest.raises(Problem) as caught:
        await limits.admit(OTHER, "echo", size=MAX_BYTES + 1)
    assert "at most 1000 may wait; send fewer or smaller jobs" in caught.value.errors[0].detail
    assert (caught.value.status, caught.value.headers) == (HTTPStatus.UNPROCESSABLE_ENTITY, {})


async def test_jobs_of_several_models_are_admitted_together_or_not_at_all(limits: QueueLimits) -> None:
    for jobs, size in [({"echo": 1, "ocr": 1}, MAX_BYTES + 1), ({"echo": PER_TENANT, "ocr": 1}, 0)]:
        with pytest.raises(Problem) as caught:
            await limits.admit_all(TENANT, jobs, size)
        assert (caught.value.status, caught.value.headers) == (HTTPStatus.UNPROCESSABLE_ENTITY, {})
    await limits.admit_all(TENANT, {"echo": 4, "ocr": 5}, MAX_BYTES)
    with pytest.raises(Problem) as caught:
        await limits.admit_all(TENANT, {"echo": 1, "ocr": 1}, 0)
    assert caught.value.status == HTTPStatus.TOO_MANY_REQUESTS
    assert await submit(limits, 10) == 1
    assert await submit(limits, PER_MODEL, OTHER, "ocr") == PER_TENANT


async def test_refused_bytes_count_for_nothing(limits: QueueLimits) -> None:
    for _ in range(PER_TENANT):
        with pytest.raises(Problem):
            await limits.admit(TENANT, "echo", size=MAX_BYTES + 1)
    assert await submit(limits, PER_TENANT) == PER_TENANT
    with pytest.raises(Problem, match="at most 10 jobs"):
        await limits.admit(TENANT, "echo", size=MAX_BYTES)


async def test_more_jobs_than_the_limit_get_no_retry_after(store: FakeStore, limits: QueueLimits) -> None:
    store.own[OTHER] = 0  # paused by an operator
    for tenant, jobs, status in ((TENANT, PER_TENANT + 1, 422), (OTHER, 1, 429)):
        with pytest.raises(Problem) as caught:
            await limits.admit(tenant, "echo", jobs)
        assert (caught.value.status, "Retry-After" in caught.value.headers) == (status, status == 429)


async def test_the_first_jobs_are_admitted_up_to_a_share_of_each_limit(store: FakeStore, limits: QueueLimits) -> None:
    """The rest of the queue stays free for others."""
    jobs = [("echo", 1), ("other", 1)] * 5
    store.jobs = {"other": 6}  # of PER_MODEL
    assert await limits.admit_first(TENANT, jobs, 0.5) == 3  # then `other` has 7
    assert await limits.admit_first(TENANT, [("echo", 1)] * 5, 0.5) == 2  # then the tenant has 5
    assert await limits.admit_first(TENANT, [("echo", 1)], 0.5) == 0
    assert await submit(limits, PER_TENANT) == PER_TENANT - 5
    assert await limits.admit_first(OTHER, [], 0.5) == 0


async def test_the_first_jobs_are_admitted_up_to_a_share_of_the_bytes(store: FakeStore, limits: QueueLimits) -> None:
    assert await limits.admit_first(TENANT, [("echo", MAX_BYTES // 4)] * 3, 0.5) == 2
    assert await limits.admit_first(TENANT, [("echo", MAX_BYTES)], 0.5) == 0
    assert await limits.admit_first(OTHER, [("echo", MAX_BYTES), ("echo", 1)], 0.5) == 1  # it never fits otherwise


@pytest.mark.parametrize(("limit", "most"), [(0, 0), (1, 1), (2, 1), (3, 1), (10, 5)])
def test_a_share_of_a_limit_is_not_nothing(limit: int, most: int) -> None:
    assert limit_share(limit, 0.5) == most


@pytest.mark.parametrize(("seconds", "fresh_for"), [(0.01, FRESH_SECONDS), (0.3, 6.0), (10.0, LONGEST_FRESH)])
async def test_a_slow_count_is_repeated_less_often(
    store: FakeStore, limits: QueueLimits, seconds: float, fresh_for: float
) -> None:
    store.seconds = seconds
    await submit(limits, 1)
    counted_at = store.now
    store.now = counted_at + fresh_for - 0.01
    await submit(limits, 1)
    assert (len(store.counted), limits._tasks) == (1, set())
    store.now = counted_at + fresh_for + 0.01
    await submit(limits, 1)
    await asyncio.gather(*limits._tasks)
    assert len(store.counted) == 2


async def test_unused_queues_are_dropped(store: FakeStore, limits: QueueLimits) -> None:
    for _ in range(MAX_CACHED_QUEUES):
        await limits.admit(ids.new(), "echo")
        store.jobs.clear()
        store.now += 0.0001
        limits._levels["echo"].jobs = 0
    assert len(limits._levels) == MAX_CACHED_QUEUES + 1
    store.now += 2 * FRESH_SECONDS
    await submit(limits, 1)
    assert limits._levels.keys() == {TENANT, "echo"}


async def test_retry_after_follows_the_jobs_that_left_between_two_counts(store: FakeStore, limits: QueueLimits) -> None:
    async def retry_after(jobs: int = 1) -> str:
        with pytest.raises(Problem) as caught:
            await limits.admit(TENANT, "echo", jobs)
        return caught.value.headers["Retry-After"]

    assert await submit(limits, PER_TENANT) == PER_TENANT
    assert await retry_after() == str(FIRST_RETRY_SECONDS)
    store.now, store.jobs[TENANT] = 4.0, PER_TENANT - 2
    assert await submit(limits, 2) == 2
    assert [await retry_after(jobs) for jobs in (1, 5)] == ["2", "10"]
    store.now, store.jobs[TENANT] = 8.0, PER_TENANT
    assert await retry_after() == str(DEFAULT_RETRY_SECONDS)


@pytest.mark.parametrize(
    ("excess", "rate", "seconds"),
    [
        (1, None, FIRST_RETRY_SECONDS),
        (1, 0.0, DEFAULT_RETRY_SECONDS),
        (1, 100.0, 1),
        (150, 100.0, 2),
        (10, 1 / 15, 150),
        (1_000_000, 1 / 60, MAX_RETRY_SECONDS),
    ],
)
def test_the_estimate_is_how_long_the_excess_takes_to_leave(excess: int, rate: float | None, seconds: int) -> None:
    assert estimate_wait(excess, rate) == seconds
