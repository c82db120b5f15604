"""How long each fault kept jobs from ending. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from tests.storm.api_state import ApiState
from tests.storm.storm_log import StormLog


@dataclass(frozen=True)
class Outage:
    """A fault of a server, in Unix seconds. It `ended` when the whole cluster was healthy again."""

    name: str
    began: float
    ended: float


class JobTimes(NamedTuple):
    submitted: float
    ended: float


def find_job_times(log: StormLog, state: ApiState) -> list[JobTimes]:
    """Return the times of all jobs that succeeded."""
    jobs = ((each, state.jobs.get(each.job_id or "")) for each in log.submissions.values())
    return [
        JobTimes(submission.call.began, job.finished_at.timestamp())
        for submission, job in jobs
        if job is not None and job.finished_at is not None and job.status == "succeeded"
    ]


def measure_first_job(outage: Outage, jobs: Sequence[JobTimes]) -> float | None:
    """Return the seconds until the first end of a job that was submitted after the fault began."""
    ends = [job.ended for job in jobs if job.submitted >= outage.began]
    return min(ends) - outage.began if ends else None


def measure_pause(outage: Outage, jobs: Sequence[JobTimes]) -> float:
    """Return the longest time during the fault in which no job ended."""
    times = [outage.began, *sorted(job.ended for job in jobs if outage.began < job.ended < outage.ended), outage.ended]
    return max(later - earlier for earlier, later in pairwise(times))


def tabulate(outages: Sequence[Outage], jobs: Sequence[JobTimes]) -> Iterator[str]:
    """Yield a table with a row for each kind of fault: medians and maxima in seconds."""
    yield f"{'seconds':22}{'faults':>7}{'first job':>18}{'longest pause':>18}{'all healthy':>18}"
    yield " " * 29 + 3 * f"{'median':>10}{'max':>8}"
    for name in sorted({outage.name for outage in outages}):
        found = [outage for outage in outages if outage.name == name]
        first = [seconds for each in found if (seconds := measure_first_job(each, jobs)) is not None]
        pauses = [measure_pause(each, jobs) for each in found]
        healthy = [each.ended - each.began for each in found]
        yield f"{name:22}{len(found):7}" + "".join(map(_show, (first, pauses, healthy)))


def _show(seconds: Sequence[float]) -> str:
    return f"{median(seconds):10.1f}{max(seconds):8.1f}" if seconds else f"{'never':>10}{'never':>8}"
