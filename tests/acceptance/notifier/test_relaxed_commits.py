"""PostgreSQL is killed between a relaxed commit and its flush.

The claim and the record of a webhook are lost. It is sent again under the same id, and its job has ended once.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator, Sequence

import pytest

from common import ids
from deploy.local.servers.postgres import DATABASE
from deploy.local.services import Service
from deploy.local.stack import Stack
from tests.support.api.api_client import Api
from tests.support.receivers.threaded_server import ReceivedRequest, Reply
from tests.support.receivers.webhook_receiver import Inbox, Receiver
from tests.support.waiting import eventually

SOON = 30.0  # seconds
ROUNDS = 20  # another commit of the notifier may flush the relaxed ones in time
ECHO = {"x": [[1.0]]}
# Write-ahead log that no synchronous commit flushes stays in memory for 10 seconds.
SETTINGS = {"wal_writer_delay": "'10s'", "wal_writer_flush_after": "'1GB'"}


@pytest.fixture
async def lazy(breakable: Stack) -> AsyncIterator[Stack]:
    """A stack whose PostgreSQL flushes relaxed commits late."""
    for name, value in SETTINGS.items():
        breakable.postgres.query(f"ALTER SYSTEM SET {name} = {value}")
    breakable.postgres.query("SELECT pg_reload_conf()")
    yield breakable
    for name in SETTINGS:
        breakable.postgres.query(f"ALTER SYSTEM RESET {name}")
    breakable.postgres.query("SELECT pg_reload_conf()")


class HeldInbox(Inbox):
    """An inbox that answers once it is released."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.released = threading.Event()

    def receive(self, request: ReceivedRequest) -> int | Reply:
        answer = super().receive(request)
        self.released.wait(SOON)
        return answer


@contextlib.contextmanager
def frozen(services: Sequence[Service]) -> Iterator[None]:
    """Let services commit nothing."""
    for service in services:
        service.freeze()
    try:
        yield
    finally:
        for service in services:
            service.thaw()


async def test_a_lost_commit_repeats_a_webhook_under_its_id(lazy: Stack, api: Api, receiver: Receiver) -> None:
    others = [service for service in lazy.services if service not in lazy.notifiers]
    for _ in range(ROUNDS):
        inbox = receiver.add_inbox(HeldInbox)
        job = (await api.submit("echo", ECHO, webhook={"url": inbox.url})).id
        await inbox.wait(1, SOON)

        async def is_recorded(job: str = job) -> bool:
            return await asyncio.to_thread(read_status, lazy, job) == "succeeded"

        async def is_delivered(job: str = job) -> bool:
            return (await api.get(job)).webhook_status == "succeeded"

        with frozen(others):
            inbox.released.set()
            await eventually(is_recorded, "the webhook is recorded", SOON)
            await asyncio.to_thread(lazy.postgres.kill)
            await asyncio.to_thread(lazy.postgres.start)
        await eventually(is_delivered, "the webhook is recorded again", SOON)
        assert len({delivery.id for delivery in inbox.deliveries}) == 1
        assert len({delivery.request.body for delivery in inbox.deliveries}) == 1
        assert (await api.get(job)).status == "succeeded"
        if len(inbox.deliveries) > 1:
            return
    pytest.fail(f"none of {ROUNDS} kills lost a commit")


def read_status(stack: Stack, job: str) -> str:
    """Return the status of the job's only delivery."""
    query = f"SELECT status FROM deliveries WHERE job_id = '{ids.parse(ids.Kind.JOB, job)}'"  # noqa: S608 -- a UUID
    return stack.postgres.query(query, DATABASE)
