"""Cancels the jobs of canceled batches. One gateway does it for all: see services/gateway/app/elected.py."""

import asyncio
from uuid import UUID

from common.telemetry.logs import Log
from common.telemetry.outage import Outage
from services.gateway.batches.store import BatchStore
from services.gateway.http.problems import Problem
from services.gateway.jobs.actions.cancel import Canceler

PAGE = 50  # jobs of a tenant before those of the next one
IN_FLIGHT = 4  # jobs that are canceled at a time
PAUSE_SECONDS = 1.0  # between two sweeps with nothing to do

log = Log("batch")


class BatchCanceler:
    def __init__(self, store: BatchStore, canceler: Canceler) -> None:
        self._store = store
        self._canceler = canceler

    async def run(self) -> None:
        """Cancel jobs as long as there are any, and look for more at intervals, until cancelled."""
        outage = Outage()
        while True:
            canceled = 0
            with outage.tolerate("batch.database_unavailable", log):
                canceled = await self.sweep()
            if not canceled:
                await asyncio.sleep(PAUSE_SECONDS)

    async def sweep(self) -> int:
        """Cancel a page of jobs of one batch of each tenant. Return how many were canceled."""
        canceled = 0
        for tenant_id, batch_id in await self._store.find_canceled():
            jobs = await self._store.find_jobs_to_cancel(batch_id, PAGE)
            for start in range(0, len(jobs), IN_FLIGHT):
                some = jobs[start : start + IN_FLIGHT]
                results = await asyncio.gather(*(self._cancel(tenant_id, job) for job in some), return_exceptions=True)
                for result in results:
                    if isinstance(result, BaseException):
                        raise result
                    canceled += result
        return canceled

    async def _cancel(self, tenant_id: UUID, job_id: UUID) -> bool:
        """Cancel a job. Return False if it has ended meanwhile."""
        try:
            await self._canceler.cancel(tenant_id, job_id)
        except Problem:
            return False
        return True
