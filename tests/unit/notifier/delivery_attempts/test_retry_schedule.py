"""When a delivery is tried again."""

from datetime import UTC, datetime

import pytest

from services.notifier.delivery_attempts.result import AttemptError, AttemptResult
from services.notifier.delivery_attempts.retry_schedule import (
    Decision,
    Exhausted,
    Rescheduled,
    Succeeded,
    decide,
    read_retry_after,
)

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
SCHEDULE = (0.0, 5.0, 300.0)
DAY = 86400.0


def respond(status: int, retry_after: str | None = None) -> AttemptResult:
    error = None if 200 <= status < 300 else AttemptError.HTTP_STATUS
    return AttemptResult(status_code=status, error=error, retry_after=retry_after)


def follow(result: AttemptResult, tries: int = 0, age: float = 0.0, random: float = 0.5) -> Decision:
    return decide(result, tries, age, SCHEDULE, random=random, now=NOW)


def test_success_ends_a_delivery_even_on_the_last_attempt() -> None:
    assert follow(respond(204), tries=9) == Succeeded()


@pytest.mark.parametrize("status", [302, 400, 404, 500])
def test_other_statuses_follow_the_schedule(status: int) -> None:
    decisions = [follow(respond(status), tries) for tries in range(4)]
    assert decisions == [Rescheduled(5.0), Rescheduled(300.0), Exhausted(), Exhausted()]


def test_delays_vary_by_a_fifth() -> None:
    assert follow(respond(500), random=0.0) == Rescheduled(4.0)
    latest = follow(respond(500), random=1.0)
    assert isinstance(latest, Rescheduled)
    assert latest.delay == pytest.approx(6.0)


def test_a_410_ends_a_delivery_at_once() -> None:
    assert follow(respond(410)) == Exhausted(disables_webhook=True)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("header", "delay"),
    [
        ("60", 60.0),
        ("2", 5.0),  # the schedule is later
        ("0", 5.0),
        ("0000060", 60.0),
        ("999999", DAY),
        ("9" * 5000, DAY),
        ("-5", 5.0),
        ("soon", 5.0),
        ("", 5.0),
        ("١٢", 5.0),
        ("Fri, 20 Nov 2026 12:01:40 GMT", 100.0),
        ("Fri, 20 Nov 2026 11:00:00 GMT", 5.0),
        ("Sat, 20 Nov 2027 12:00:00 GMT", DAY),
    ],
)
def test_retry_after_is_obeyed(status: int, header: str, delay: float) -> None:
    for random in (0.0, 0.5, 0.999):
        decision = follow(respond(status, header), random=random)
        assert isinstance(decision, Rescheduled)
        assert decision.delay >= delay * 0.8 if delay == 5.0 else decision.delay == delay


def test_retry_after_counts_for_429_and_503_only() -> None:
    assert follow(respond(500, "60")) == Rescheduled(5.0)


def test_retry_after_does_not_stretch_the_schedule() -> None:
    assert follow(respond(503, "60"), tries=2) == Exhausted()


def test_a_date_without_a_zone_is_utc() -> None:
    assert read_retry_after("Fri, 20 Nov 2026 12:00:10 -0000", NOW) == 10.0


INTERNAL = AttemptResult(error=AttemptError.DNS_FAILED, internal=True)


def test_an_internal_error_costs_the_receiver_no_attempt() -> None:
    assert follow(INTERNAL) == Rescheduled(5.0, counted=False)
    assert follow(INTERNAL, tries=2, age=100.0) == Rescheduled(30.0, counted=False)


def test_an_internal_error_counts_once_the_schedule_could_have_ended() -> None:
    assert follow(INTERNAL, age=305.1) == Rescheduled(5.0)
    assert follow(INTERNAL, tries=2, age=305.1) == Exhausted()


def test_a_schedule_of_one_attempt() -> None:
    assert decide(respond(500), 0, 0.0, (0.0,), random=0.5, now=NOW) == Exhausted()
    assert decide(INTERNAL, 0, 0.0, (0.0,), random=0.5, now=NOW) == Rescheduled(0.5, counted=False)
