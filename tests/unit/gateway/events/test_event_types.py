"""Events that a callback may ask for."""

import pytest

from services.gateway.events.event_types import find_event_errors


@pytest.mark.parametrize("events", [["job.*"], ["*.failed", "job.failed"], ["*"]])
def test_patterns_of_events_of_jobs_are_valid(events: list[str]) -> None:
    assert find_event_errors(events) == []


@pytest.mark.parametrize("event", ["job", "jobs.*", "batch.completed", "job.queued", ""])
def test_an_event_that_no_job_has_is_refused_in_a_callback(event: str) -> None:
    (error,) = find_event_errors([event])
    assert (error.pointer, "job.*" in error.detail) == ("/webhook/events/0", True)
