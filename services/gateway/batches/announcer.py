"""Announces the jobs of batches that were just committed."""

import asyncio
from collections.abc import Mapping, Sequence
from uuid import UUID

from common.jobs.new_job import NewJob
from common.jobs.submit import JobTimes
from common.rabbitmq.wake_ups import WakeUpPublisher
from services.gateway.jobs.submit import jobs_submitted


class JobAnnouncer:
    def __init__(self, wake_ups: WakeUpPublisher) -> None:
        self._wake_ups = wake_ups
        self._announcing: set[asyncio.Task[None]] = set()

    def announce(self, jobs: Sequence[NewJob], times: Mapping[UUID, JobTimes]) -> None:
        """Announce jobs in the background. Runs wait for a sweeper."""
        due = [job for job in jobs if times[job.id].run_at <= times[job.id].created_at and not job.is_run]
        task = asyncio.create_task(self._wake_ups.announce_many([job.wake_up for job in due]))
        self._announcing.add(task)
        task.add_done_callback(self._announcing.discard)
        for job in jobs:
            jobs_submitted.labels(job.model, job.priority).inc()
