"""`charonia cancel` cancels jobs, and those of batches that have not ended."""

from types import SimpleNamespace
from typing import Any

import pytest
from charonia.cli.commands import jobs
from charonia.cli.session import Session
from charonia.errors import Conflict
from typer import Exit


class Job:
    """A job that has ended if its id says so."""

    def __init__(self, job_id: str) -> None:
        self.id = job_id
        self.has_ended = "ended" in job_id
        self.data = SimpleNamespace(status="canceled")

    def cancel(self) -> None:
        if self.id.endswith("late"):
            raise Conflict(409, "conflict", "it has ended")

    def refresh(self) -> "Job":
        return self


def make_session() -> Session:
    members = {"batch_1": ["job_1", "job_ended", "job_late"], "batch_completed": ["job_ended", "job_retried"]}

    def cancel(batch_id: str) -> None:
        if members[batch_id][0] == "job_ended":
            raise Conflict(409, "conflict", "the batch is completed")

    batches = SimpleNamespace(cancel=cancel)
    found: Any = SimpleNamespace(list=lambda batch: map(Job, members[batch]), get=Job)
    session = Session(None, as_json=False)
    session.__dict__["client"] = SimpleNamespace(jobs=found, batches=batches)
    return session


def test_the_jobs_of_a_batch_are_canceled(capsys: pytest.CaptureFixture[str]) -> None:
    jobs.cancel(make_session(), ["job_2", "batch_1"])
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["job_1", "job_late", "job_2"]


def test_the_retried_jobs_of_a_completed_batch_are_canceled(capsys: pytest.CaptureFixture[str]) -> None:
    jobs.cancel(make_session(), ["batch_completed"])
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["job_retried"]


def test_a_named_job_that_has_ended_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Exit):
        jobs.cancel(make_session(), ["late"])
    assert "late: 409 conflict" in capsys.readouterr().err
