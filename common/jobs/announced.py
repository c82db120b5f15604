"""Announces jobs that a statement has made claimable."""

import asyncpg

from common.rabbitmq.messages import QueuedJob
from common.rabbitmq.wake_ups import WakeUp, job_wake_up


def read_wake_up(record: asyncpg.Record) -> WakeUp:
    """Return the wake-up of a job, whose record has the columns that it needs."""
    job = QueuedJob(record["tenant_id"], record["id"])
    return job_wake_up(job, record["priority"], record["model"], record["traceparent"])
