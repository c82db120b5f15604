"""Announces the jobs of batches that were just committed."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from uuid import UUID

from common.errors import Unavailable
from common.jobs.new_job import NewJob
from common.jobs.submit import JobTimes
from common.jobs.twins import lift_twins
from common.postgres.database import Database
from common.rabbitmq.wake_ups import WakeUpPublisher
from common.reuse.key import ReuseKey
from services.gateway.jobs.submit import count_submitted

KEYS = 200  # in one statement


class JobAnnouncer:
    def __init__(self, wake_ups: WakeUpPublisher, database: Database) -> None:
        self._wake_ups = wake_ups
        self._database = database
        self._announcing: set[asyncio.Task[None]] = set()

    def announce(self, jobs: Sequence[NewJob], times: Mapping[UUID, JobTimes]) -> None:
        """Announce jobs in the background, and lift the twins that some wait for. Runs wait for a sweeper."""
        due = [job for job in jobs if times[job.id].run_at <= times[job.id].created_at and not job.is_run]
        task = asyncio.create_task(self._announce(due))
        self._announcing.add(task)
        task.add_done_callback(self._announcing.discard)
        for job in jobs:
            count_submitted(job)

    async def _announce(self, jobs: Sequence[NewJob]) -> None:
        await self._wake_ups.announce_many([job.wake_up for job in jobs if job.reuse_key is None])
        keys = [*dict.fromkeys(ReuseKey(job.tenant_id, job.reuse_key) for job in jobs if job.reuse_key is not None)]
        with contextlib.suppress(Unavailable):  # without it, twins only start later
            for start in range(0, len(keys), KEYS):
                await self._wake_ups.announce_many(await lift_twins(self._database, keys[start : start + KEYS]))
