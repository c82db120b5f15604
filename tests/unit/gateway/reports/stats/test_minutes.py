"""Counts by minute from the changes in each minute."""

from datetime import UTC, datetime, timedelta

from services.gateway.reports.stats.minutes import MinuteCounts, count_up
from services.gateway.reports.stats.store import Minute

BEGIN = datetime(2026, 11, 22, 10, tzinfo=UTC)


def at(minute: int) -> datetime:
    return BEGIN + timedelta(minutes=minute)


CHANGES = [
    Minute(at(0), 0, 0, 5, 2),
    Minute(at(1), 3, 1, -2, 1),
    Minute(at(2), 0, 0, 0, 0),
    Minute(at(3), 1, 0, -3, -3),
]


def test_changes_are_added_up_from_the_oldest_on() -> None:
    assert count_up(CHANGES, 5) == [
        MinuteCounts(at(1), 3, 1, 3, 3),
        MinuteCounts(at(2), 0, 0, 3, 3),
        MinuteCounts(at(3), 1, 0, 0, 0),
    ]


def test_minutes_with_uncounted_ends_are_left_out() -> None:
    assert [each.at for each in count_up(CHANGES, 4)] == [at(2), at(3)]
    assert count_up([Minute(at(0), 0, 0, 0, 0), Minute(at(1), 9, 0, 0, 0)], 9) == []
