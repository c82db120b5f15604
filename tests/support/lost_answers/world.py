"""A stack whose services reach PostgreSQL through the proxy, clients that repeat calls, and what they were promised."""

import asyncio
import itertools
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

import asyncpg
import httpx

from common import ids
from common.errors import Unavailable
from common.postgres.database import Database
from deploy.local.stack import Stack
from tests.support.lost_answers.proxy import AnswerLoser
from tests.support.receivers.webhook_receiver import Inbox, Receiver
from tests.support.waiting import eventually

CALL_SECONDS = 60.0  # with all its repetitions
DELIVERY_SECONDS = 120.0  # the answers of three claims of a delivery may be lost, and each claim lasts 30 s
PAUSE_SECONDS = 0.05
TERMINAL = ("succeeded", "failed", "canceled", "expired")

T = TypeVar("T")


@dataclass
class Promise:
    """A job that was accepted, with how it may end."""

    id: str
    ends: tuple[str, ...]
    output: list[object] | None = None


class Client:
    """A client of one key. It repeats a call that gets 503, as documented."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http
        self.promises: dict[str, Promise] = {}
        self._prefix = secrets.token_hex(4)
        self._numbers = itertools.count(1)

    async def call(self, method: str, path: str, *expected: int, **options: Any) -> httpx.Response:
        """Return the first answer that is not 503, with one of the expected statuses: by default, a success."""
        async with asyncio.timeout(CALL_SECONDS):
            while (response := await self.http.request(method, path, **options)).status_code == 503:
                assert path.startswith("/v2") or "retry-after" in response.headers
                await asyncio.sleep(PAUSE_SECONDS)
        allowed = expected or (200, 201, 202, 204)
        assert response.status_code in allowed, f"{method} {path}: {response.status_code} {response.text}"
        return response

    async def get(self, path: str, **query: Any) -> Any:
        return (await self.call("GET", path, 200, params=query)).json()

    async def submit(
        self,
        model: str,
        inputs: object,
        *ends: str,
        output: list[object] | None = None,
        priority: str = "normal",
        **options: object,
    ) -> str:
        """Submit a job under a key until it is accepted, and once more. Return its id."""
        key = f"{self._prefix}-{next(self._numbers)}"
        body = {"model": model, "inputs": inputs, "priority": priority, "metadata": {"key": key}, **options}
        found = {
            (await self.call("POST", "/v1/jobs", 202, json=body, headers={"Idempotency-Key": key})).json()["id"]
            for _ in range(2)
        }
        (job_id,) = found
        self.promises[key] = Promise(job_id, ends or ("succeeded",), output)
        return str(job_id)

    async def wait(self, job_id: str, *statuses: str, within: float = 60.0) -> dict[str, Any]:
        """Return the job once it has one of these statuses, by default any terminal one."""

        async def poll() -> dict[str, Any] | None:
            job: dict[str, Any] = await self.get(f"/v1/jobs/{job_id}")
            return job if job["status"] in (statuses or TERMINAL) else None

        return await eventually(poll, f"{job_id} is {' or '.join(statuses or TERMINAL)}", within)


@dataclass
class World:
    """What scenarios use."""

    stack: Stack
    loser: AnswerLoser
    receiver: Receiver
    own: asyncpg.Pool  # past the proxy, as the owner
    client: Client
    limited: Client  # another key of the same tenant, with a rate limit
    other: Client  # of another tenant
    removed: Client  # of a tenant whose jobs are removed
    removed_id: UUID
    bucket: str
    inboxes: list[Inbox] = field(default_factory=list)
    callbacks: dict[str, str] = field(default_factory=dict)  # the URLs of receivers, by the jobs that call them
    moved_jobs: set[UUID] = field(default_factory=set)  # whose rows a scenario changed

    def inbox(self, *answers: int) -> Inbox:
        inbox = self.receiver.inbox(*answers)
        self.inboxes.append(inbox)
        return inbox

    @asynccontextmanager
    async def database(self) -> AsyncIterator[Database]:
        """Open a pool through the proxy, with all rights."""
        database = await Database.connect(self.proxied_url, size=2, application="test")
        yield database
        await database.close()

    @property
    def proxied_url(self) -> str:
        return self.stack.environment["CHARONIA_DATABASE_URL"]

    async def wait_until_counted(self) -> None:
        """Return once the usage of all jobs that have ended is counted."""

        async def is_counted() -> bool:
            uncounted = "SELECT FROM jobs WHERE ended_xid >= (SELECT counted_before FROM usage_progress) LIMIT 1"
            return not await self.own.fetch(uncounted)

        await eventually(is_counted, "the usage is counted", 45)

    async def read(self, statement: str, *values: object) -> list[Mapping[str, Any]]:
        return [dict(row) for row in await self.own.fetch(statement, *values)]


async def repeat(call: Callable[[], Awaitable[T]]) -> T:
    """Return what a call returns once the database answers it."""
    async with asyncio.timeout(CALL_SECONDS):
        while True:
            try:
                return await call()
            except Unavailable:
                await asyncio.sleep(PAUSE_SECONDS)


def parse(kind: ids.Kind, text: str) -> UUID:
    found = ids.parse(kind, text)
    assert found is not None
    return found


@asynccontextmanager
async def open_client(stack: Stack, key: str) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=stack.url, headers=headers, timeout=40) as http:
        yield Client(http)


def decode_lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]
