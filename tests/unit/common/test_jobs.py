"""States of a job."""

from common.jobs import EVENT_TYPES, TERMINAL, TERMINAL_EVENTS, TRANSITIONS, Priority, Status, number_event


def test_every_state_has_its_ways_out() -> None:
    assert set(TRANSITIONS) == set(Status)


def test_every_state_can_be_reached_from_queued() -> None:
    reached, edge = {Status.QUEUED}, {Status.QUEUED}
    while edge:
        edge = {after for before in edge for after in TRANSITIONS[before]} - reached
        reached |= edge
    assert reached == set(Status)


def test_every_state_leads_to_an_end() -> None:
    ending = set(TERMINAL)
    while more := {status for status in Status if TRANSITIONS[status] & ending} - ending:
        ending |= more
    assert ending == set(Status)


def test_success_is_final_and_other_ends_can_only_be_queued_again() -> None:
    assert TRANSITIONS[Status.SUCCEEDED] == frozenset()
    for status in TERMINAL - {Status.SUCCEEDED}:
        assert TRANSITIONS[status] == {Status.QUEUED}


def test_a_canceling_job_never_goes_back_to_the_queue() -> None:
    assert TRANSITIONS[Status.CANCELING] <= TERMINAL


def test_each_end_has_its_event() -> None:
    assert set(TERMINAL_EVENTS) == {"job.succeeded", "job.failed", "job.canceled", "job.expired"}
    assert {"job.started", *TERMINAL_EVENTS} <= set(EVENT_TYPES)


def test_priorities_are_listed_highest_first() -> None:
    assert list(Priority) == ["high", "normal", "low"]


def test_the_numbers_of_a_jobs_events_rise() -> None:
    events = [("job.canceled", 0), ("job.started", 1), ("job.failed", 1), ("job.started", 2), ("job.succeeded", 2)]
    assert [number_event(*event) for event in events] == [0, 1, 2, 3, 4]
