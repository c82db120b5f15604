"""Tells whether another job may have caused the crash that hit a suspected poison job. Pure.

services/dispatcher/failures/retry_policy.py says when a job is suspected.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from common.jobs.job import ClaimedJob
from common.jobs.rescue import Beside, LostJobs
from services.dispatcher.failures.retry_policy import MAX_INTERRUPTIONS, PROBATION_SECONDS


class Start(NamedTuple):
    """When a job of a tenant began, in seconds of any clock."""

    tenant: UUID
    at: float


def runs_alone(job: ClaimedJob) -> bool:
    """Return whether a job was interrupted as a suspect already, so that a crash must show whether it is the cause."""
    return job.probation is not None and job.interruptions > MAX_INTERRUPTIONS


def is_doubtful(suspect: Start, others: Iterable[Start]) -> bool:
    """Return whether an unproven job of another tenant ran beside a suspect. `others` ran there when it crashed.

    A job is proven once it has run for PROBATION_SECONDS. So those that began long before the suspect are proven.
    """
    return any(other.tenant != suspect.tenant and suspect.at - other.at < PROBATION_SECONDS for other in others)


def find_doubtful(lost: LostJobs, beside: Iterable[Beside]) -> set[UUID]:
    """Return the suspects among the jobs of lost dispatchers that another job there may have interrupted.

    Each job has the time at which it was found lost. `beside`: all jobs of these dispatchers.
    """
    starts: dict[str, list[Start]] = defaultdict(list)
    for each in beside:
        starts[each.worker].append(read_start(each))
    return {job.id for job, now in lost if job.probation is not None and is_lost_in_doubt(job, starts[job.worker], now)}


def is_lost_in_doubt(suspect: ClaimedJob, others: Collection[Start], now: datetime) -> bool:
    """Return whether another job may have killed a suspect's dispatcher.

    One that has to run alone began when the jobs of other tenants were proven. It may have been waiting until now.
    """
    start = read_start(suspect)
    if not runs_alone(suspect):
        return is_doubtful(start, others)
    earlier = [other.at for other in others if other.tenant != start.tenant and other.at <= start.at]
    began = max([start.at, *(at + PROBATION_SECONDS for at in earlier)])
    return began > now.timestamp() or is_doubtful(Start(start.tenant, began), others)


def read_start(job: ClaimedJob | Beside) -> Start:
    return Start(job.tenant_id, job.started_at.timestamp())
