"""The checker of twins reports each execution too many, and nothing else."""

from dataclasses import replace

import msgspec
import pytest

from tests.storm.check_reuse import check_reuse
from tests.storm.storm_log import Call, Fault, Submission
from tests.storm.test_check import AT, JOB, KILL, REQUEST, RUN, Storm
from tests.support.api.api_client import Job, Metrics

TWIN_REQUEST = replace(REQUEST, reuses=True)
TAKEN = msgspec.structs.replace(JOB, id="job_8", attempt=0, metrics=Metrics(None, None, None), reused_from=JOB.id)
LATER = replace(KILL, began=AT + 60, ended=AT + 61)


def make_storm(*jobs: Job) -> Storm:
    """Return a storm in which jobs asked the same. Each that took nothing ran once."""
    storm = Storm()
    storm.log.submissions, storm.state.jobs, storm.state.attempts = {}, {}, {}
    for number, job in enumerate(jobs):
        key = f"{number}.0"
        call = Call("submit", "accepted", 202, AT, AT)
        storm.log.submissions[key] = Submission(key, TWIN_REQUEST, call, job.id)
        storm.state.jobs[job.id] = job
        storm.state.attempts[job.id] = [] if job.reused_from else [RUN]
    return storm


def find(storm: Storm) -> set[str]:
    return {rule for _, rule, _, _ in check_reuse(storm.log, storm.state)}


OTHER = msgspec.structs.replace(JOB, id="job_9")


def test_a_group_that_ran_once_is_right() -> None:
    assert find(make_storm(JOB, TAKEN)) == set()


@pytest.mark.parametrize(("faults", "is_wrong"), [([], True), ([KILL], False), ([LATER], True)])
def test_a_second_execution_needs_a_fault(faults: list[Fault], *, is_wrong: bool) -> None:
    storm = make_storm(JOB, OTHER)
    storm.log.faults += faults
    assert find(storm) == ({"the same question is answered once"} if is_wrong else set())


def test_a_second_execution_may_follow_an_erasure() -> None:
    storm = make_storm(JOB, OTHER)
    storm.log.submissions["0.0"].erasures.append(Call("erase", "accepted", 204, AT, AT))
    assert find(storm) == set()


def test_a_result_comes_from_the_group_as_it_was() -> None:
    stranger = msgspec.structs.replace(TAKEN, reused_from="job_1")
    assert find(make_storm(JOB, stranger)) == {"results come from jobs that ask the same"}
    changed = msgspec.structs.replace(TAKEN, outputs=[])
    assert find(make_storm(JOB, changed)) == {"a job has the outputs that it took"}
    storm = make_storm(JOB, TAKEN)
    storm.state.attempts[TAKEN.id] = [msgspec.structs.replace(RUN, status="failed")]
    assert find(storm) == {"a job that took a result has not run"}


def test_a_job_that_did_not_want_it_takes_nothing() -> None:
    storm = make_storm(JOB, TAKEN)
    storm.log.submissions["1.0"].request = REQUEST
    assert find(storm) == {"only jobs that want it take results"}
