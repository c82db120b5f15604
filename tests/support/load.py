"""Clients that keep a stack busy."""

import asyncio

from tests.support.api.api_client import Api, Job
from tests.support.api.model_inputs import work
from tests.support.receivers.webhook_receiver import Inbox
from tests.support.waiting import eventually


class Load:
    """Clients that submit a job and poll until it has ended, again and again. The first failed request raises."""

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
            self.ended.append(await self._api.run("work", work(100), webhook={"url": self._inbox.url}))
