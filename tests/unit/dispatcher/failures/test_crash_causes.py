"""A crash counts against a suspect only if no unproven job of another tenant may have caused it."""

from datetime import timedelta
from uuid import UUID

import msgspec
import pytest

from common import ids
from common.jobs.job import ClaimedJob
from common.jobs.rescue import Beside
from services.dispatcher.failures.crash_causes import Start, find_doubtful, is_doubtful, runs_alone
from services.dispatcher.failures.retry_policy import MAX_INTERRUPTIONS, find_probation
from tests.unit.dispatcher.jobs import NOW, claimed

OWN, OTHER = ids.new(), ids.new()


def started(after: float, tenant: UUID = OTHER, interruptions: int = 0, worker: str = "w") -> ClaimedJob:
    """Return a job that a worker claimed this long after the first suspect."""
    job = msgspec.structs.replace(claimed(), tenant_id=tenant, started_at=NOW + timedelta(seconds=after))
    probation = find_probation(interruptions)
    return msgspec.structs.replace(job, interruptions=interruptions, probation=probation, worker=worker)


def test_a_job_runs_alone_after_a_crash_as_a_suspect() -> None:
    jobs = [started(0, OWN, interruptions) for interruptions in range(MAX_INTERRUPTIONS + 2)]
    assert [runs_alone(job) for job in jobs] == [False] * (MAX_INTERRUPTIONS + 1) + [True]
    assert not runs_alone(msgspec.structs.replace(jobs[-1], probation=None))  # it has survived


def find(suspect: ClaimedJob, *others: ClaimedJob, lost_after: float = 60.0) -> bool:
    """Return whether it is doubtful that a suspect killed its dispatcher."""
    beside = [Beside(job.worker, job.tenant_id, job.started_at) for job in (suspect, *others)]
    found = find_doubtful([(suspect, NOW + timedelta(seconds=lost_after))], beside)
    assert found <= {suspect.id}
    return bool(found)


@pytest.mark.parametrize(("began", "doubtful"), [(-31.0, False), (-30.0, False), (-29.0, True), (5.0, True)])
def test_what_began_long_before_a_suspect_is_proven(began: float, doubtful: bool) -> None:
    assert is_doubtful(Start(OWN, 0.0), [Start(OTHER, began)]) == doubtful
    assert not is_doubtful(Start(OWN, 0.0), [Start(OWN, began)])  # its own tenant answers for all its jobs
    assert find(started(0, OWN, 3), started(began)) == doubtful


@pytest.mark.parametrize(
    ("began", "lost_after", "doubtful"),
    [(-31.0, 1.0, False), (-10.0, 19.0, True), (-10.0, 21.0, False), (0.0, 29.0, True), (1.0, 60.0, True)],
)
def test_a_suspect_that_runs_alone_waits_first(began: float, lost_after: float, doubtful: bool) -> None:
    suspect = started(0, OWN, 4)
    assert find(suspect, started(began), lost_after=lost_after) == doubtful
    assert not find(suspect, started(began, OWN), lost_after=lost_after)


def test_jobs_of_other_dispatchers_cause_no_doubt() -> None:
    assert find(started(0, OWN, 3), started(1))
    assert not find(started(0, OWN, 3, worker="another"), started(1))
    assert not find(started(0, OWN), started(1))  # no suspect
