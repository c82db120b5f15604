"""What PostgreSQL has counted, and when its counts are complete."""

import pytest

from benchmarks.harness.counters import Counters, group_statements, is_settled, subtract


@pytest.mark.parametrize(
    ("sessions", "settled"),
    [
        ([], True),
        ([("idle", 11.0)], True),  # idle sessions have reported after ten seconds
        ([("idle", 2.0)], True),  # it has ended a transaction a second after the end, and reported with it
        ([("idle", 4.5)], False),  # it may have reported half a second before the end
        ([("idle", 9.0)], False),  # what it did last may not be reported yet
        ([("active", 11.0)], False),
        ([("idle", 11.0), ("idle", 5.5)], False),
    ],
)
def test_counts_are_complete_when_each_session_has_reported(sessions: list[tuple[str, float]], settled: bool) -> None:
    assert is_settled(sessions, 5.0) == settled


def test_statements_have_the_names_of_their_first_lines() -> None:
    rows = [("-- claim\nSELECT 1", 2, 3.0), ("-- claim\nSELECT 2", 1, 0.5), ("UPDATE  t\nSET x = $1", 1, 1.0)]
    assert group_statements(rows) == {"claim": (3.0, 3.5), "UPDATE t SET x = $1": (1.0, 1.0)}


def test_figures_are_per_job_and_without_what_idle_services_do_meanwhile() -> None:
    before = Counters(100.0, {"commits": 50, "rows/jobs.inserted": 7}, {"end": (1.0, 0.5)})
    after = Counters(120.0, {"commits": 110, "rows/jobs.inserted": 17, "rows/new.updated": 20}, {"end": (11.0, 4.5)})
    assert subtract(before, after, divisor=10, idle={"commits": 2.0}, late=5.0) == {
        "commits": 5.0,
        "rows/jobs.inserted": 1.0,
        "rows/new.updated": 2.0,
        "rows": 3.0,
        "calls/end": 1.0,
        "statements/end": 0.4,
        "statements": 0.4,
    }


def test_details_that_are_nothing_are_left_out() -> None:
    before = Counters(0.0, {"commits": 1, "rows/jobs.deleted": 4}, {})
    assert subtract(before, before, divisor=10) == {"commits": 0.0, "rows": 0.0, "statements": 0.0}
