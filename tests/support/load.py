"""Clients that keep a stack busy."""

import asyncio
from functools import partial

from tests.support.api.api_client import TERMINAL, Api, Job, read
from tests.support.api.model_inputs import work
from tests.support.receivers.webhook_receiver import Inbox
from tests.support.waiting import eventually

JOB_MS = 400
WAIT_SECONDS = 5


class Load:
    """Clients that submit a job and wait until it has ended, again and again. The first failed request raises.

    Jobs of some length keep every service busy at little cost: each client has a job in a dispatcher most of the time.
    """

    def __init__(self, api: Api, inbox: Inbox, clients: int) -> None:
        self.ended: list[Job] = []
        self._api = api
        self._inbox = inbox
        self._clients = clients
        self._stopped = False

    async def run(self) -> None:
        """Run the clients until `stop` is called."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._clients):
                group.create_task(self._run_client())

    def stop(self) -> None:
        """Submit no more jobs."""
        self._stopped = True

    async def wait_for_jobs(self, jobs: int) -> None:
        """Return once this many more jobs have ended."""
        goal = len(self.ended) + jobs

        async def poll() -> bool:
            return len(self.ended) >= goal

        await eventually(poll, f"{jobs} more jobs have ended")

    async def _run_client(self) -> None:
        while not self._stopped:
            job = await self._api.submit("work", work(JOB_MS), webhook={"url": self._inbox.url})
            self.ended.append(await eventually(partial(self._wait, job.id), f"{job.id} has ended"))

    async def _wait(self, job_id: str) -> Job | None:
        """Return a job if it ends soon. A gateway that stops answers earlier."""
        job = read(await self._api.http.get(f"/v1/jobs/{job_id}", params={"wait": WAIT_SECONDS}), 200, Job)
        return job if job.status in TERMINAL else None
