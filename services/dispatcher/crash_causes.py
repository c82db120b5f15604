"""Tells whether another job may have caused the crash that hit a suspected poison job. Pure.

services/dispatcher/retry_policy.py says when a job is suspected.
"""

from collections.abc import Collection
from datetime import timedelta
from uuid import UUID

from services.dispatcher.claims.claimed_job import ClaimedJob
from services.dispatcher.retry_policy import MAX_INTERRUPTIONS, PROBATION_SECONDS


def runs_alone(job: ClaimedJob) -> bool:
    """Return whether a job was interrupted as a suspect already, so that a crash must show whether it is the cause."""
    return job.probation is not None and job.interruptions > MAX_INTERRUPTIONS


def is_doubtful(suspect: ClaimedJob, others: Collection[ClaimedJob]) -> bool:
    """Return whether an unproven job of another tenant ran beside a suspect. `others` ran there when it crashed.

    A job is proven once it has run for PROBATION_SECONDS. So those that began long before the suspect are proven, and
    before one that ran alone, those that began at all.
    """
    margin = timedelta(seconds=0.0 if runs_alone(suspect) else PROBATION_SECONDS)
    return any(
        other.row.tenant_id != suspect.row.tenant_id and other.started_at > suspect.started_at - margin
        for other in others
    )


def find_doubtful(lost: Collection[ClaimedJob]) -> set[UUID]:
    """Return the suspects among the jobs of lost dispatchers which another job there may have killed."""
    return {
        job.row.id
        for job in lost
        if job.probation is not None and is_doubtful(job, [each for each in lost if each.worker == job.worker])
    }
