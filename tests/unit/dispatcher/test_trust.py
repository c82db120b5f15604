"""Which models' answers are believed."""

import pytest

from services.dispatcher.trust import DOUBTED_SECONDS, QUIET_SECONDS, Trust
from tests.unit.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def trust(clock: Clock) -> Trust:
    return Trust(clock)


def ask(trust: Trust) -> bool:
    return trust.has("work", trust.begin("work"))


def test_a_lost_trust_comes_back_some_time_after_the_first_answer(trust: Trust, clock: Clock) -> None:
    assert (ask(trust), trust.is_lost) == (True, False)
    before = trust.begin("work")
    trust.lose("work")
    assert trust.is_lost
    clock.now += 10 * DOUBTED_SECONDS  # nobody asked
    assert (ask(trust), trust.is_lost) == (False, False)  # no news, but not believed
    clock.now += DOUBTED_SECONDS
    assert ask(trust)
    assert not trust.has("work", before)


def test_an_instance_that_stays_dead_takes_the_others_along_once(trust: Trust, clock: Clock) -> None:
    trust.lose("work")
    assert not ask(trust)
    for _ in range(10):
        clock.now += DOUBTED_SECONDS / 5
        trust.lose("work")
    assert ask(trust)
    clock.now += QUIET_SECONDS + 1
    trust.lose("work")
    assert not ask(trust)


def test_what_was_asked_before_the_model_was_away_is_not_believed_after(trust: Trust) -> None:
    trust.lose("work")
    asked = trust.begin("work")
    trust.keep({"work"})
    assert not ask(trust)
    trust.keep(())
    assert (ask(trust), trust.has("work", asked)) == (True, False)
    trust.lose("work")  # the new one
    assert not ask(trust)
