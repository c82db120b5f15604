"""A failed attempt decides what happens to its job."""

from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.job_states import Failure
from common.jobs.job import ClaimedJob
from services.dispatcher.failures.retry_policy import (
    REFUSED_DELAY_SECONDS,
    Again,
    Attempted,
    Fail,
    FallBack,
    GiveBack,
    Interrupted,
    Lost,
    Outcome,
    Refused,
    count_interruptions,
    decide,
    find_pause,
    find_probation,
    is_suspected,
)
from tests.unit.dispatcher.jobs import claimed

TRANSIENT = Failure("inference_failed", "try again", True)
PERMANENT = Failure("invalid_input", "never", False)


class Given(NamedTuple):
    """A job, and what else the decision depends on."""

    job: ClaimedJob
    suspected: bool
    interruptions: int = 0


def policy(
    attempt: int = 1,
    max_attempts: int = 5,
    suspected: bool = False,
    initial_delay: float = 1.0,
    max_delay: float = 300.0,
    fallback_model: str | None = None,
) -> Given:
    job = msgspec.structs.replace(
        claimed(fallback_model=fallback_model),
        attempt=attempt,
        max_attempts=max_attempts,
        initial_delay=initial_delay,
        max_delay=max_delay,
    )
    return Given(job, suspected)


def choose(given: Given, outcome: Outcome, chance: float) -> GiveBack | Again | FallBack | Fail:
    return decide(given.job, outcome, chance, suspected=given.suspected, interruptions=given.interruptions)


@pytest.mark.parametrize("outcome", [Interrupted(TRANSIENT), Lost(TRANSIENT)])
def test_an_interrupted_attempt_is_given_back_even_if_it_was_the_last(outcome: Outcome) -> None:
    assert choose(policy(attempt=5), outcome, 0.5) == GiveBack(0.0)


@pytest.mark.parametrize("outcome", [Interrupted(TRANSIENT), Lost(TRANSIENT)])
def test_an_interruption_of_a_suspect_counts(outcome: Outcome) -> None:
    assert choose(policy(suspected=True), outcome, 0.5) == Again(0.5)
    assert choose(policy(attempt=5, suspected=True), outcome, 0.5) == Fail()


@pytest.mark.parametrize("kind", [Interrupted, Lost])
def test_a_crash_that_another_tenant_may_have_caused_does_not_count(kind: type[Interrupted | Lost]) -> None:
    assert is_suspected(30.0, kind(TRANSIENT), 1.0)
    assert not is_suspected(30.0, kind(TRANSIENT, doubtful=True), 1.0)
    assert is_suspected(30.0, Attempted(TRANSIENT), 1.0)


def test_a_job_that_is_interrupted_again_and_again_waits_longer_each_time() -> None:
    assert [find_pause(count) for count in range(3, 9)] == [0.0, 0.0, 15.0, 30.0, 60.0, 60.0]
    assert find_pause(10_000) == 60.0
    crashed = policy(attempt=4, suspected=True)._replace(interruptions=6)
    assert choose(crashed, Interrupted(TRANSIENT), 0.5) == Again(30.0)
    assert choose(crashed._replace(suspected=False), Lost(TRANSIENT), 0.5) == GiveBack(30.0)


def test_a_refused_attempt_never_counts() -> None:
    over = policy(attempt=5, suspected=True)
    assert choose(over, Refused(TRANSIENT), 0.5) == GiveBack(REFUSED_DELAY_SECONDS * 1.5)
    assert choose(over, Refused(TRANSIENT, 4.0), 0.5) == GiveBack(6.0)


def test_probation_begins_with_the_third_interruption_and_doubles() -> None:
    assert [find_probation(count) for count in range(2, 7)] == [None, 30.0, 60.0, 120.0, 240.0]
    assert find_probation(10_000) == find_probation(33)


def test_a_job_that_survives_its_probation_is_not_suspected() -> None:
    assert is_suspected(30.0, Interrupted(TRANSIENT), 29.0)
    assert not is_suspected(30.0, Interrupted(TRANSIENT), 30.0)
    assert is_suspected(30.0, Lost(TRANSIENT), 1e9)
    assert not is_suspected(None, Lost(TRANSIENT), 0.0)


def test_only_an_attempt_that_ends_by_itself_ends_a_row_of_interruptions() -> None:
    outcomes = Interrupted(TRANSIENT), Lost(TRANSIENT), Refused(TRANSIENT), Attempted(TRANSIENT)
    assert [count_interruptions(2, outcome) for outcome in outcomes] == [3, 3, None, 0]


def test_a_transient_failure_is_retried_while_attempts_are_left() -> None:
    assert choose(policy(attempt=4), Attempted(TRANSIENT), 0.5) == Again(4.0)


def test_a_transient_failure_of_the_last_attempt_is_final() -> None:
    assert choose(policy(attempt=5), Attempted(TRANSIENT), 0.5) == Fail()


def test_a_permanent_failure_is_final_at_once() -> None:
    assert choose(policy(attempt=1), Attempted(PERMANENT), 0.5) == Fail()


def test_a_fallback_model_is_tried_before_failing() -> None:
    used_up = policy(attempt=5, fallback_model="small")
    assert choose(used_up, Attempted(TRANSIENT), 0.5) == FallBack("small")
    refused = policy(attempt=1, fallback_model="small")
    assert choose(refused, Attempted(PERMANENT), 0.5) == FallBack("small")


def test_a_fallback_model_waits_until_the_attempts_are_used_up() -> None:
    early = policy(attempt=1, fallback_model="small")
    assert choose(early, Attempted(TRANSIENT), 0.25) == Again(0.25)


@given(
    attempt=st.integers(1, 99),
    initial=st.floats(0, 86_400),
    span=st.floats(0, 604_800),
    chance=st.floats(0, 1, exclude_max=True),
)
def test_a_delay_is_within_its_jitter_and_the_maximum(attempt: int, initial: float, span: float, chance: float) -> None:
    maximum = initial + span
    found = choose(
        policy(attempt=attempt, max_attempts=100, initial_delay=initial, max_delay=maximum),
        Attempted(TRANSIENT),
        chance,
    )
    assert isinstance(found, Again)
    assert 0 <= found.delay <= min(maximum, initial * 2.0 ** (attempt - 1))


def test_delays_double_with_each_attempt_until_the_maximum() -> None:
    ceilings = []
    for attempt in range(1, 8):
        found = choose(policy(attempt=attempt, max_attempts=100, max_delay=20.0), Attempted(TRANSIENT), 1.0)
        assert isinstance(found, Again)
        ceilings.append(found.delay)
    assert ceilings == [1, 2, 4, 8, 16, 20, 20]


def test_a_high_attempt_number_has_a_finite_delay() -> None:
    found = choose(policy(attempt=10_000, max_attempts=20_000), Attempted(TRANSIENT), 1.0)
    assert found == Again(300.0)
