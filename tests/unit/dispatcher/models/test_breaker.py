"""A breaker stops the jobs of a model that does not answer, and lets one at a time through."""

import asyncio
from uuid import UUID

import pytest

from common import ids
from services.dispatcher.models.breaker import FIRST_SECONDS, MAX_SECONDS, PROBE_SECONDS, Breaker
from tests.unit.clock import LATE, Clock

JOBS = [ids.new() for _ in range(3)]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    return Breaker("work", clock)


def time_out(breaker: Breaker, clock: Clock, job: UUID, seconds: float = 1.0) -> bool:
    clock.now += seconds
    return breaker.note_timeout(job, seconds)


def test_two_jobs_that_time_out_in_a_row_open_it(breaker: Breaker, clock: Clock) -> None:
    assert [time_out(breaker, clock, job) for job in JOBS] == [False, True, True]
    assert (breaker.is_open, breaker.may_start) == (True, True)  # a second has passed


def test_one_job_that_times_out_again_and_again_does_not_open_it(breaker: Breaker, clock: Clock) -> None:
    assert [time_out(breaker, clock, JOBS[0]) for _ in range(5)] == [False] * 5


def test_a_timeout_does_not_count_if_the_model_answered_another_job_meanwhile(breaker: Breaker, clock: Clock) -> None:
    for job in JOBS:
        clock.now += 0.5
        breaker.note_answer()
        assert not time_out(breaker, clock, job, 0.5)
    assert not breaker.is_open
    assert not time_out(breaker, clock, JOBS[0], 0.4)
    breaker.note_answer()
    assert not time_out(breaker, clock, JOBS[1], 0.4)  # the first no longer counts


def test_probes_run_one_at_a_time_and_later_each_time(breaker: Breaker, clock: Clock) -> None:
    breaker.note_crash()
    waits = []
    for _ in range(6):
        began = clock.now
        while not breaker.may_start:
            clock.now += 0.125
        waits.append(clock.now - began)
        assert breaker.start()
        clock.now += PROBE_SECONDS - 1
        assert [breaker.may_start] == [False]  # one at a time
        breaker.end_probe()
    assert waits == [FIRST_SECONDS, 1, 2, 4, MAX_SECONDS, MAX_SECONDS]
    breaker.note_answer()
    assert (breaker.is_open, breaker.start()) == (False, False)
    breaker.note_crash()
    clock.now += FIRST_SECONDS
    assert breaker.may_start


async def test_a_long_probe_does_not_keep_the_jobs_of_others_waiting_for_its_end() -> None:
    """A tenant's timeouts opened it, and the probe is a job of an hour."""
    clock = Clock()
    breaker = Breaker("work", clock)
    breaker.note_crash()
    clock.now += FIRST_SECONDS
    breaker.start()
    assert not breaker.may_start
    clock.now += PROBE_SECONDS
    async with asyncio.timeout(LATE):
        await breaker.wait()
    assert breaker.start()
    assert not breaker.may_start


def test_a_probe_without_a_job_delays_no_other(breaker: Breaker, clock: Clock) -> None:
    breaker.note_crash()
    clock.now += FIRST_SECONDS
    for _ in range(5):
        assert breaker.start()
        breaker.cancel_probe()
        assert breaker.may_start


async def test_an_answer_lets_all_waiters_start() -> None:
    breaker = Breaker("work", Clock())  # no probe is ever due
    breaker.note_crash()
    waiting = [asyncio.create_task(breaker.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    breaker.note_answer()
    await asyncio.wait_for(asyncio.gather(*waiting), LATE)


async def test_a_waiter_starts_once_a_probe_is_due() -> None:
    clock = Clock()
    breaker = Breaker("work", clock)
    breaker.note_crash()
    clock.now += FIRST_SECONDS
    breaker.start()
    waiting = asyncio.create_task(breaker.wait())
    await asyncio.sleep(0)
    breaker.end_probe()
    clock.now += 2 * FIRST_SECONDS
    await asyncio.wait_for(waiting, LATE)
