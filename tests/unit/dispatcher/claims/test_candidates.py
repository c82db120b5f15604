"""Of the jobs that a dispatcher knows to wait, those go first whose turn it is."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import NamedTuple
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.jobs.claim import Found
from common.rabbitmq.messages import QueuedJob
from services.dispatcher.claims.candidates import (
    MAX_CANDIDATES,
    SEARCH_SHARE,
    SEARCHED,
    SEARCHED_SLOWLY,
    SLOW_SECONDS,
    Candidates,
)

NIL = UUID(int=0)
TENANTS = [UUID(int=number) for number in range(1, 5)]


def make(tenant: int, number: int) -> QueuedJob:
    """Return a job of a tenant; the numbers are in the order of age."""
    return QueuedJob(TENANTS[tenant], UUID(int=1000 * (tenant + 1) + number))


class Choice(NamedTuple):
    jobs: Sequence[QueuedJob]
    wanted: int
    running: dict[UUID, int]
    last_tenant: UUID
    closed: Collection[UUID]
    per_tenant: int | None


CHOICES = st.builds(
    Choice,
    st.lists(st.builds(make, st.integers(0, 3), st.integers(0, 20)), unique=True),
    st.integers(1, 12),
    st.dictionaries(st.sampled_from(TENANTS), st.integers(1, 5)),
    st.sampled_from([NIL, *TENANTS]),
    st.sets(st.sampled_from(TENANTS), max_size=2),
    st.none() | st.integers(1, 4),
)


def choose_slowly(choice: Choice) -> list[QueuedJob]:
    """Choose one job after the other, each time from all that are left."""
    left, running, chosen = [*choice.jobs], dict(choice.running), list[QueuedJob]()
    while len(chosen) < choice.wanted:
        open_jobs = [
            job
            for job in left
            if job.tenant_id not in choice.closed
            and (choice.per_tenant is None or running.get(job.tenant_id, 0) < choice.per_tenant)
        ]
        if not open_jobs:
            break
        job = min(
            open_jobs,
            key=lambda job: (running.get(job.tenant_id, 0), job.tenant_id <= choice.last_tenant, job.tenant_id, job.id),
        )
        left.remove(job)
        running[job.tenant_id] = running.get(job.tenant_id, 0) + 1
        chosen.append(job)
    return chosen


@given(CHOICES)
def test_jobs_are_chosen_in_the_order_of_their_turns(choice: Choice) -> None:
    candidates = Candidates()
    for job in choice.jobs:
        candidates.add(job)
    assert candidates.choose(*choice[1:]) == choose_slowly(choice)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def list_all(candidates: Candidates) -> set[QueuedJob]:
    return {*candidates.choose(MAX_CANDIDATES, {}, NIL)}


def competes(candidates: Candidates) -> bool:
    return candidates.competing


def finds(
    *jobs: QueuedJob,
    is_all: bool = True,
    meanwhile: Callable[[], object] = lambda: None,
    counts: list[int] | None = None,
    seconds: float | None = None,
) -> Callable[[int], Awaitable[Found]]:
    async def find(count: int) -> Found:
        if counts is not None:
            counts.append(count)
        meanwhile()
        return Found(jobs, is_all, seconds)

    return find


async def test_a_search_replaces_the_jobs_but_keeps_what_becomes_known_meanwhile() -> None:
    candidates = Candidates()
    gone, taken, found, new = (make(0, number) for number in range(4))
    for job in (gone, taken):
        candidates.add(job)

    def go_on() -> None:
        candidates.settle([taken], [])
        candidates.add(new)

    await candidates.search(finds(taken, found, meanwhile=go_on))
    assert list_all(candidates) == {found, new}
    await candidates.search(finds(taken))
    assert list_all(candidates) == {taken}


def test_an_offered_job_stays_only_while_it_waits() -> None:
    candidates, jobs = Candidates(), [make(0, 1), make(1, 1)]
    for job in jobs:
        candidates.add(job)
    candidates.settle(jobs, [jobs[1].id])
    assert list_all(candidates) == {jobs[1]}


def test_a_queue_knows_a_bounded_number_of_jobs() -> None:
    candidates = Candidates()
    for number in range(MAX_CANDIDATES + 10):
        candidates.add(make(0, number))
    assert len(list_all(candidates)) == MAX_CANDIDATES


async def test_competing_jobs_are_searched_for_a_small_part_of_the_time(clock: Clock) -> None:
    candidates = Candidates(clock)
    assert candidates.is_stale()
    stale_meanwhile = list[bool]()

    def go_on() -> None:
        clock.now += 0.5
        stale_meanwhile.append(candidates.is_stale())

    await candidates.search(finds(make(0, 1), is_all=False, meanwhile=go_on))
    assert stale_meanwhile == [False]
    assert not candidates.is_stale()
    clock.now += 0.5 * (SEARCH_SHARE - 1)
    assert not candidates.is_stale()
    clock.now += 0.1
    assert candidates.is_stale()


async def test_a_busy_dispatcher_searches_as_often_as_others(clock: Clock) -> None:
    """What a search costs is the time of the server, not that until a busy dispatcher reads the answer."""
    candidates = Candidates(clock)

    def wait() -> None:
        clock.now += 0.5

    await candidates.search(finds(make(0, 1), is_all=False, meanwhile=wait, seconds=0.01))
    assert candidates.is_stale()
    await candidates.search(finds(make(0, 1), is_all=False, seconds=0.01))
    assert not candidates.is_stale()
    clock.now += 0.01 * SEARCH_SHARE + 0.001
    assert candidates.is_stale()


async def test_jobs_compete_no_longer_when_all_that_a_search_found_have_started(clock: Clock) -> None:
    candidates, jobs = Candidates(clock), [make(0, 1), make(0, 2)]
    await candidates.search(finds(*jobs))
    candidates.settle(jobs[:1], [])
    assert competes(candidates)
    candidates.settle(jobs[1:], [])
    assert not competes(candidates)
    clock.now += 1000.0
    assert not candidates.is_stale()
    candidates.competing = True
    await candidates.search(finds(*jobs, is_all=False))
    candidates.settle(jobs, [])
    assert competes(candidates), "the search may have left some out"


async def test_what_a_search_knows_is_true_from_its_begin(clock: Clock) -> None:
    candidates = Candidates(clock)
    await candidates.search(finds(make(0, 1), meanwhile=lambda: setattr(clock, "now", 105.0)))
    assert candidates.was_searched_since(100.0)
    assert not candidates.was_searched_since(101.0)


async def test_a_slow_search_finds_more_the_next_time(clock: Clock) -> None:
    candidates, counts = Candidates(clock), list[int]()
    await candidates.search(finds(counts=counts, meanwhile=lambda: setattr(clock, "now", clock.now + 2 * SLOW_SECONDS)))
    await candidates.search(finds(counts=counts))
    await candidates.search(finds(counts=counts))
    assert counts == [SEARCHED, SEARCHED_SLOWLY, SEARCHED]


async def test_a_search_that_fails_changes_nothing_but_how_soon_the_next_one_is(clock: Clock) -> None:
    candidates = Candidates(clock)
    candidates.add(make(0, 1))

    async def fail(_: int) -> Found:
        clock.now += 1.0
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await candidates.search(fail)
    assert list_all(candidates) == {make(0, 1)}
    assert competes(candidates)
    clock.now += SEARCH_SHARE - 1.5
    assert not candidates.is_stale()
