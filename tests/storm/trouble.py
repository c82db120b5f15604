"""What another tenant does to the stack during a storm. It must break no promise to the first one.

Its request bodies never come, its results have 50 MB, and its subscription, with many deliveries pending,
answers 410.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import msgspec

from common.postgres.database import Database
from tests.storm.check import Violation
from tests.storm.client import PAUSE_SECONDS, Client, open_client
from tests.storm.receiver import GONE, Receiver
from tests.support.api.api_client import TERMINAL, Job
from tests.support.api.api_shapes import Subscription
from tests.support.api.model_inputs import fault
from tests.support.database.backlog import parse_endpoint_id
from tests.support.database.seed import Subscriber, add_pending

STALLED_CONNECTIONS = 8  # to each gateway: at 16 MiB each, they once held all memory for bodies
HEAD = "POST /v1/jobs HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {key}\r\nContent-Length: 16777216\r\n\r\n"
LARGE_BYTES = 50_000_000
LARGE_SECONDS = 10.0  # between two such jobs
RETRY = {"max_attempts": 8, "initial_delay": 0.2, "max_delay": 2.0}


class Deliveries(msgspec.Struct, frozen=True):
    items: list[msgspec.Raw]


class Trouble:
    def __init__(self, client: Client, gateways: list[str], key: str, subscription: Subscription) -> None:
        self._client = client
        self._gateways = gateways
        self._key = key
        self._subscription = subscription
        self._jobs: list[str] = []

    async def run(self, until: asyncio.Event) -> None:
        """Make trouble until `until` is set."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._submit_large())]
            tasks += [
                group.create_task(self._stall(gateway))
                for gateway in self._gateways
                for _ in range(STALLED_CONNECTIONS)
            ]
            await until.wait()
            for task in tasks:
                task.cancel()

    async def _stall(self, gateway: str) -> None:
        """Announce a body that never comes, again and again."""
        address = urlsplit(gateway)
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection(address.hostname, address.port)
                writer.write(HEAD.format(key=self._key).encode())
                try:
                    await reader.read()  # until the gateway has closed it
                finally:
                    writer.close()
            await asyncio.sleep(PAUSE_SECONDS)

    async def _submit_large(self) -> None:
        body = {"model": "faulty", "inputs": fault("large", LARGE_BYTES), "retry": RETRY}
        while True:
            _, job = await self._client.call("submit", "/v1/jobs", msgspec.json.encode(body))
            self._jobs += [job.id] if job else []
            await asyncio.sleep(LARGE_SECONDS if job else PAUSE_SECONDS)

    async def find_violations(self, within: float) -> list[Violation]:
        """Wait at most `within` seconds for the ends of its jobs and deliveries. Return what is not as promised."""
        deadline = time.monotonic() + within
        while True:
            found = await self._find_unfinished()
            if not found or time.monotonic() > deadline:
                return found
            await asyncio.sleep(PAUSE_SECONDS)

    async def _find_unfinished(self) -> list[Violation]:
        found = []
        for job_id in self._jobs:
            job = await self._client.read(f"/v1/jobs/{job_id}", Job)
            if job.status != "succeeded":
                seen = f"{job.status} {job.error}" if job.status in TERMINAL else job.status
                found.append(Violation(job_id, "a large result becomes a file of its job", "succeeded", seen))
        path = f"/v1/webhooks/{self._subscription.id}"
        shown = await self._client.read(path, Subscription)
        if shown.disabled_reason != "gone":
            found.append(Violation(shown.id, "a 410 disables a subscription", "gone", str(shown.disabled_reason)))
        pending = await self._client.read(f"{path}/deliveries?status=pending&limit=1", Deliveries)
        if pending.items:
            found.append(Violation(shown.id, "a disabled subscription has nothing pending", "nothing", "a delivery"))
        return found


@asynccontextmanager
async def open_trouble(
    gateways: list[str], key: str, database_url: str, receiver: Receiver, backlog: int
) -> AsyncIterator[Trouble]:
    """Prepare the key's tenant, whose subscription has `backlog` deliveries pending."""
    async with open_client(gateways, key) as client:
        request = {"url": receiver.url + GONE, "events": ["job.*"]}
        subscription = await client.create("/v1/webhooks", request, Subscription)
        await add_backlog(database_url, subscription, backlog)
        yield Trouble(client, gateways, key, subscription)


async def add_backlog(database_url: str, subscription: Subscription, count: int) -> None:
    database = await Database.connect(database_url, application="storm")
    try:
        endpoint = parse_endpoint_id(subscription.id)
        (row,) = await database.fetch("SELECT tenant_id FROM webhooks WHERE id = $1", endpoint)
        await add_pending(database, Subscriber(row["tenant_id"], endpoint, subscription.url), count)
    finally:
        await database.close()
