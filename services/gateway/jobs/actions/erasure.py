"""Erases the payload of an ended job. The job itself stays, with its status and times."""

import asyncio
from uuid import UUID

from common.job_states import TERMINAL
from common.jobs.cancel import lock_job
from common.jobs.erase import erase_job, is_delivering, lock_events
from common.jobs.run import count_step_jobs, erase_steps
from common.jobs.twins import forget_result, forget_results_of_run
from common.postgres.database import Connection, Database
from services.gateway.http.problems import LATER, conflict, not_found
from services.gateway.jobs.runs.refusals import refuse_step

DELIVERY_WAIT_SECONDS = 5.0  # for running deliveries to end
POLL_SECONDS = 0.1


class Eraser:
    def __init__(self, database: Database, delivery_wait: float = DELIVERY_WAIT_SECONDS) -> None:
        """`delivery_wait` is in seconds."""
        self._database = database
        self._delivery_wait = delivery_wait

    async def erase(self, tenant_id: UUID, job_id: UUID) -> bool:
        """Erase the job. Afterwards nothing of it is sent. Return False if it was erased before.

        Raises Problem: 404, or 409 for a job that has not ended, that of a step, or one whose delivery takes too long.
        """
        deadline = asyncio.get_running_loop().time() + self._delivery_wait
        while True:
            erased = await self._try_erase(tenant_id, job_id)
            if erased is not None:
                return erased
            if asyncio.get_running_loop().time() >= deadline:
                text = "a webhook of the job is being sent; try again soon"
                raise conflict(text, LATER)
            await asyncio.sleep(POLL_SECONDS)

    async def _try_erase(self, tenant_id: UUID, job_id: UUID) -> bool | None:
        """Erase the job as `erase` does. Return None, and do nothing, during a delivery."""
        async with self._database.transaction() as connection:
            found = await lock_job(connection, job_id, tenant_id)
            if found is None:
                raise not_found("job")
            if found.job.parent is not None:
                raise refuse_step(found.job, "erase")
            if found.job.status not in TERMINAL:
                raise conflict(f"the job is {found.job.status}; cancel it, or wait until it has ended")
            if found.job.erased_at is not None:
                return False
            events = await lock_events(connection, job_id)
            if await is_delivering(connection, job_id, events):
                return None
            if found.job.is_run:
                await erase_step_jobs(connection, job_id)
            if found.job.reused_from is not None:
                await forget_result(connection, job_id)
            await erase_job(connection, job_id, events)
        return True


async def erase_step_jobs(connection: Connection, run: UUID) -> None:
    """Erase the jobs of a locked run's steps. Raises Problem (409) if one has not ended."""
    for step, count in (await count_step_jobs(connection, run)).items():
        if count.live:
            text = f"a job of step '{step}' has not ended yet; try again soon"
            raise conflict(text, LATER)
    await forget_results_of_run(connection, run)
    await erase_steps(connection, run)
