"""A stalled model's answers are rejected until it can be trusted again."""

import pytest

from services.dispatcher.triton.quarantine import QUARANTINE_SECONDS, REPEAT_SECONDS, Quarantine
from tests.unit.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def quarantine(clock: Clock) -> Quarantine:
    return Quarantine(clock)


def accepts_now(quarantine: Quarantine) -> bool:
    return quarantine.accepts("work", quarantine.epoch("work"))


def test_a_quarantine_ends_some_time_after_the_first_rejected_answer(quarantine: Quarantine, clock: Clock) -> None:
    assert (accepts_now(quarantine), quarantine.is_active) == (True, False)
    before = quarantine.epoch("work")
    quarantine.add("work")
    assert quarantine.is_active
    clock.now += 10 * QUARANTINE_SECONDS  # no request was sent
    assert (accepts_now(quarantine), quarantine.is_active) == (False, False)  # not recent, but still rejected
    clock.now += QUARANTINE_SECONDS
    assert accepts_now(quarantine)
    assert not quarantine.accepts("work", before)


def test_an_instance_that_stays_dead_quarantines_the_others_once(quarantine: Quarantine, clock: Clock) -> None:
    quarantine.add("work")
    assert not accepts_now(quarantine)
    for _ in range(10):
        clock.now += QUARANTINE_SECONDS / 5
        quarantine.add("work")
    assert accepts_now(quarantine)
    clock.now += REPEAT_SECONDS + 1
    quarantine.add("work")
    assert not accepts_now(quarantine)


def test_an_answer_to_a_request_from_before_the_reload_is_rejected(quarantine: Quarantine) -> None:
    quarantine.add("work")
    sent = quarantine.epoch("work")
    quarantine.release_reloaded({"work"})
    assert not accepts_now(quarantine)
    quarantine.release_reloaded(())
    assert (accepts_now(quarantine), quarantine.accepts("work", sent)) == (True, False)
    quarantine.add("work")  # the reloaded model
    assert not accepts_now(quarantine)
