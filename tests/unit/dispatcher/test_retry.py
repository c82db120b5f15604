"""A failed attempt decides what happens to its job."""

from hypothesis import given
from hypothesis import strategies as st

from common.jobs import Failure
from services.dispatcher.retry import (
    MAX_INTERRUPTIONS,
    REFUSED_DELAY_SECONDS,
    Again,
    Attempted,
    Fail,
    FallBack,
    GiveBack,
    Interrupted,
    Policy,
    Refused,
    decide,
)

TRANSIENT = Failure("inference_failed", "try again", True)
PERMANENT = Failure("invalid_input", "never", False)


def policy(
    attempt: int = 1,
    max_attempts: int = 5,
    interruptions: int = 0,
    initial_delay: float = 1.0,
    max_delay: float = 300.0,
    fallback_model: str | None = None,
) -> Policy:
    return Policy(attempt, max_attempts, interruptions, initial_delay, max_delay, fallback_model)


def test_an_interrupted_attempt_is_given_back_even_if_it_was_the_last() -> None:
    assert decide(policy(attempt=5), Interrupted(TRANSIENT), 0.5) == GiveBack(0.0)


def test_the_number_of_interruptions_is_limited() -> None:
    last = policy(interruptions=MAX_INTERRUPTIONS - 1)
    assert decide(last, Interrupted(TRANSIENT), 0.5) == GiveBack(0.0)
    over = policy(interruptions=MAX_INTERRUPTIONS)
    assert decide(over, Interrupted(TRANSIENT), 0.5) == Again(0.5)


def test_a_refused_attempt_never_counts() -> None:
    over = policy(attempt=5, interruptions=MAX_INTERRUPTIONS)
    assert decide(over, Refused(TRANSIENT), 0.5) == GiveBack(REFUSED_DELAY_SECONDS * 1.5)


def test_one_interruption_too_many_fails_a_job_on_its_last_attempt() -> None:
    over = policy(attempt=5, interruptions=MAX_INTERRUPTIONS)
    assert decide(over, Interrupted(TRANSIENT), 0.5) == Fail()


def test_a_transient_failure_is_retried_while_attempts_are_left() -> None:
    assert decide(policy(attempt=4), Attempted(TRANSIENT), 0.5) == Again(4.0)


def test_a_transient_failure_of_the_last_attempt_is_final() -> None:
    assert decide(policy(attempt=5), Attempted(TRANSIENT), 0.5) == Fail()


def test_a_permanent_failure_is_final_at_once() -> None:
    assert decide(policy(attempt=1), Attempted(PERMANENT), 0.5) == Fail()


def test_a_fallback_model_is_tried_before_failing() -> None:
    used_up = policy(attempt=5, fallback_model="small")
    assert decide(used_up, Attempted(TRANSIENT), 0.5) == FallBack("small")
    refused = policy(attempt=1, fallback_model="small")
    assert decide(refused, Attempted(PERMANENT), 0.5) == FallBack("small")


def test_a_fallback_model_waits_until_the_attempts_are_used_up() -> None:
    early = policy(attempt=1, fallback_model="small")
    assert decide(early, Attempted(TRANSIENT), 0.25) == Again(0.25)


@given(
    attempt=st.integers(1, 99),
    initial=st.floats(0, 86_400),
    span=st.floats(0, 604_800),
    chance=st.floats(0, 1, exclude_max=True),
)
def test_a_delay_is_within_its_jitter_and_the_maximum(attempt: int, initial: float, span: float, chance: float) -> None:
    maximum = initial + span
    found = decide(
        policy(attempt=attempt, max_attempts=100, initial_delay=initial, max_delay=maximum),
        Attempted(TRANSIENT),
        chance,
    )
    assert isinstance(found, Again)
    assert 0 <= found.delay <= min(maximum, initial * 2.0 ** (attempt - 1))


def test_delays_double_with_each_attempt_until_the_maximum() -> None:
    ceilings = []
    for attempt in range(1, 8):
        found = decide(policy(attempt=attempt, max_attempts=100, max_delay=20.0), Attempted(TRANSIENT), 1.0)
        assert isinstance(found, Again)
        ceilings.append(found.delay)
    assert ceilings == [1, 2, 4, 8, 16, 20, 20]


def test_a_high_attempt_number_has_a_finite_delay() -> None:
    found = decide(policy(attempt=10_000, max_attempts=20_000), Attempted(TRANSIENT), 1.0)
    assert found == Again(300.0)
