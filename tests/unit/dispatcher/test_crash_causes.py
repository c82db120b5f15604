"""A crash counts against a suspect only if no unproven job of another tenant may have caused it."""

from datetime import timedelta
from uuid import UUID

import msgspec
import pytest

from common import ids
from services.dispatcher.claims.claimed_job import ClaimedJob
from services.dispatcher.crash_causes import find_doubtful, is_doubtful, runs_alone
from services.dispatcher.retry_policy import MAX_INTERRUPTIONS, find_probation
from tests.unit.dispatcher.jobs import NOW, claimed

OWN, OTHER = ids.new(), ids.new()


def started(after: float, tenant: UUID = OTHER, interruptions: int = 0, worker: str = "w") -> ClaimedJob:
    """Return a job that a worker claimed this long after the first suspect."""
    job = claimed()
    row = msgspec.structs.replace(job.row, tenant_id=tenant, started_at=NOW + timedelta(seconds=after))
    probation = find_probation(interruptions)
    return msgspec.structs.replace(job, row=row, interruptions=interruptions, probation=probation, worker=worker)


def test_a_job_runs_alone_after_a_crash_as_a_suspect() -> None:
    jobs = [started(0, OWN, interruptions) for interruptions in range(MAX_INTERRUPTIONS + 2)]
    assert [runs_alone(job) for job in jobs] == [False] * (MAX_INTERRUPTIONS + 1) + [True]
    assert not runs_alone(msgspec.structs.replace(jobs[-1], probation=None))  # it has survived


@pytest.mark.parametrize(
    ("interruptions", "after", "doubtful"),
    [(3, -31.0, False), (3, -29.0, True), (3, 5.0, True), (4, -1.0, False), (4, 0.0, False), (4, 1.0, True)],
)
def test_what_began_long_before_a_suspect_is_proven(interruptions: int, after: float, doubtful: bool) -> None:
    suspect = started(0, OWN, interruptions)
    assert is_doubtful(suspect, [suspect, started(after)]) == doubtful
    assert not is_doubtful(suspect, [suspect, started(after, OWN)])  # its own tenant answers for all its jobs


def test_jobs_of_other_dispatchers_cause_no_doubt() -> None:
    doubtful, sure = started(0, OWN, 3), started(0, OWN, 3, worker="another")
    assert find_doubtful([doubtful, sure, started(1)]) == {doubtful.row.id}
    assert find_doubtful([started(0, OWN), started(1)]) == set()  # no suspects
