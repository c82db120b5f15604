"""When a delivery is tried again."""

from datetime import UTC, datetime

import pytest

from services.notifier.outcome import Fault, Outcome
from services.notifier.schedule import Again, Exhausted, Succeeded, Verdict, decide, read_retry_after

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
SCHEDULE = (0.0, 5.0, 300.0)
DAY = 86400.0


def answer(status: int, retry_after: str | None = None) -> Outcome:
    fault = None if 200 <= status < 300 else Fault.HTTP_STATUS
    return Outcome(status_code=status, fault=fault, retry_after=retry_after)


def judge(outcome: Outcome, tries: int = 0, age: float = 0.0, random: float = 0.5) -> Verdict:
    return decide(outcome, tries, age, SCHEDULE, random=random, now=NOW)


def test_success_ends_it_even_as_the_last_attempt() -> None:
    assert judge(answer(204), tries=9) == Succeeded()


@pytest.mark.parametrize("status", [302, 400, 404, 500])
def test_other_answers_follow_the_schedule(status: int) -> None:
    verdicts = [judge(answer(status), tries) for tries in range(4)]
    assert verdicts == [Again(5.0), Again(300.0), Exhausted(), Exhausted()]


def test_delays_vary_by_a_fifth() -> None:
    assert judge(answer(500), random=0.0) == Again(4.0)
    latest = judge(answer(500), random=1.0)
    assert isinstance(latest, Again)
    assert latest.delay == pytest.approx(6.0)


def test_gone_ends_it_at_once() -> None:
    assert judge(answer(410)) == Exhausted(gone=True)


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
        verdict = judge(answer(status, header), random=random)
        assert isinstance(verdict, Again)
        assert verdict.delay >= delay * 0.8 if delay == 5.0 else verdict.delay == delay


def test_retry_after_counts_for_429_and_503_only() -> None:
    assert judge(answer(500, "60")) == Again(5.0)


def test_retry_after_does_not_stretch_the_schedule() -> None:
    assert judge(answer(503, "60"), tries=2) == Exhausted()


def test_a_date_without_a_zone_is_utc() -> None:
    assert read_retry_after("Fri, 20 Nov 2026 12:00:10 -0000", NOW) == 10.0


OURS = Outcome(fault=Fault.DNS_FAILED, ours=True)


def test_our_own_fault_takes_no_attempt_from_the_receiver() -> None:
    assert judge(OURS) == Again(5.0, counted=False)
    assert judge(OURS, tries=2, age=100.0) == Again(30.0, counted=False)


def test_our_own_fault_counts_once_the_schedule_could_have_ended() -> None:
    assert judge(OURS, age=305.1) == Again(5.0)
    assert judge(OURS, tries=2, age=305.1) == Exhausted()


def test_a_schedule_of_one_attempt() -> None:
    assert decide(answer(500), 0, 0.0, (0.0,), random=0.5, now=NOW) == Exhausted()
    assert decide(OURS, 0, 0.0, (0.0,), random=0.5, now=NOW) == Again(0.5, counted=False)
