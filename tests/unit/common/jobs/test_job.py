"""Rows of jobs, also those that a later release wrote."""

from typing import Any

import msgspec
import pytest

from common import ids
from common.job_states import Priority, Status
from common.jobs.job import ClaimedJob, read_jobs, read_shown_job
from tests.unit.dispatcher.jobs import NOW, claimed


def make_row(**changes: str) -> Any:
    job = claimed()
    return (
        msgspec.structs.asdict(job) | {"id": ids.new(), "status": "processing", "priority": "low", "now": NOW} | changes
    )


def test_jobs_of_a_later_release_are_left_out_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    known = make_row()
    strange = [make_row(status="paused"), make_row(priority="urgent")]
    for _ in range(2):
        assert [(job.id, now) for job, now in read_jobs(ClaimedJob, [strange[0], known, strange[1]])] == [
            (known["id"], NOW)
        ]
    assert [record.message for record in caplog.records] == ["job.unreadable"] * 2


@pytest.mark.parametrize(
    ("status", "priority"), [("paused", "low"), ("processing", "urgent"), ("paused", "urgent"), ("processing", "low")]
)
def test_a_view_shows_what_a_later_release_wrote(status: str, priority: str) -> None:
    row = read_shown_job(make_row(status=status, priority=priority))
    assert (row.status, row.priority) == (status, priority)
    assert (row.status is Status.PROCESSING) == (status == "processing")
    assert (row.priority is Priority.LOW) == (priority == "low")
