"""States of a job."""

from common.event_types import EVENT_TYPES, TERMINAL_EVENTS, number_event
from common.job_states import Priority


def test_each_end_has_its_event() -> None:
    assert set(TERMINAL_EVENTS) == {"job.succeeded", "job.failed", "job.canceled", "job.expired"}
    assert {"job.started", *TERMINAL_EVENTS} <= set(EVENT_TYPES)


def test_priorities_are_listed_highest_first() -> None:
    assert list(Priority) == ["high", "normal", "low"]


def test_the_numbers_of_a_jobs_events_rise() -> None:
    """With room for later types of events between a start and its end."""
    events = [("job.canceled", 0), ("job.started", 1), ("job.failed", 1), ("job.started", 2), ("job.succeeded", 2)]
    assert [number_event(*event) for event in events] == [999, 1001, 1999, 2001, 2999]
