"""Checks that jobs which ask the same ran once, but for what faults, cancels and erasures allow. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence

from tests.storm.api_state import ApiState
from tests.storm.storm_log import Fault, StormLog, Submission
from tests.support.api.api_client import Job

MARGIN = 5.0  # seconds after a fault in which its effects are seen, such as another load of a model
Found = tuple[str, str, str, str]


def check_reuse(log: StormLog, state: ApiState) -> Iterator[Found]:
    """Yield what is wrong with the groups of jobs that ask the same, and with jobs that took a result."""
    groups: dict[str, list[tuple[Submission, Job]]] = {}
    for submission in log.submissions.values():
        job = None if submission.job_id is None else state.jobs.get(submission.job_id)
        if job is not None and submission.request.reuses:
            question = json.dumps([submission.request.model, submission.request.inputs])
            groups.setdefault(question, []).append((submission, job))
        elif job is not None and job.reused_from is not None:
            yield job.id, "only jobs that want it take results", "its own result", f"from {job.reused_from}"
    for question, members in groups.items():
        jobs = {job.id: job for _, job in members}
        executions = sum(each.status == "succeeded" for job in jobs for each in state.attempts.get(job, []))
        if executions > (most := count_allowed(members, log.faults)):
            yield (
                members[0][1].id,
                "the same question is answered once",
                f"at most {most} of {question}",
                str(executions),
            )
        for job in jobs.values():
            yield from check_taken(job, jobs, state)


def count_allowed(members: Sequence[tuple[Submission, Job]], faults: Sequence[Fault]) -> int:
    """Return how many executions of a group may succeed.

    Each fault may cost one, and so may each job that did not take its twin's place well: one that was canceled, failed,
    expired, was erased or was retried.
    """
    began = min(submission.call.began for submission, _ in members)
    ends = [job.finished_at.timestamp() for _, job in members if job.finished_at is not None]
    ended = max(ends, default=began)
    during = sum(fault.began <= ended and began <= fault.ended + MARGIN for fault in faults)
    lost = sum(
        job.status != "succeeded" or bool(submission.cancels or submission.retries or submission.erasures)
        for submission, job in members
    )
    return 1 + during + lost


def check_taken(job: Job, group: Mapping[str, Job], state: ApiState) -> Iterator[Found]:
    """Check a job of a group that took a result: it ran nowhere, and has what its maker has."""
    maker = job.reused_from
    if maker is None:
        return
    if maker not in group:
        yield job.id, "results come from jobs that ask the same", ", ".join(group), maker
        return
    if state.attempts.get(job.id):
        yield job.id, "a job that took a result has not run", "no attempt", str(state.attempts[job.id])
    made = group[maker].outputs
    if made is not None and job.outputs is not None and made != job.outputs:
        yield job.id, "a job has the outputs that it took", repr(made), repr(job.outputs)
