"""PostgreSQL is killed between a relaxed commit and its flush.

The claim and the record of a webhook are lost. It is sent again under the same id, and its job has ended once.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest

from common import ids
from deploy.local.servers.postgres import DATABASE
from deploy.local.stack import Stack
from tests.support.api.api_client import Api
from tests.support.receivers.webhook_receiver import Receiver
from tests.support.waiting import eventually

SOON = 30.0  # seconds
ROUNDS = 20  # another commit may flush the relaxed ones in time
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


async def test_a_lost_commit_repeats_a_webhook_under_its_id(lazy: Stack, api: Api, receiver: Receiver) -> None:
    is_lost = False
    for _ in range(ROUNDS):
        inbox = receiver.inbox()
        job = (await api.submit("echo", ECHO, webhook={"url": inbox.url})).id

        async def is_delivered(job: str = job) -> bool:
            return (await api.get(job)).webhook_status == "succeeded"

        await eventually(is_delivered, "the webhook is delivered and recorded", SOON)
        await asyncio.to_thread(lazy.postgres.kill)
        await asyncio.to_thread(lazy.postgres.start)
        is_lost = read_status(lazy, job) == "pending"
        deliveries = await inbox.wait(1 + is_lost, SOON)
        assert len({delivery.id for delivery in deliveries}) == 1
        assert len({delivery.request.body for delivery in deliveries}) == 1
        await eventually(is_delivered, "the webhook is recorded", SOON)
        assert (await api.get(job)).status == "succeeded"
        if is_lost:
            break
    assert is_lost, f"none of {ROUNDS} kills lost a commit"


def read_status(stack: Stack, job: str) -> str:
    """Return the status of the job's only delivery."""
    query = f"SELECT status FROM deliveries WHERE job_id = '{ids.parse(ids.Kind.JOB, job)}'"  # noqa: S608 -- a UUID
    return stack.postgres.query(query, DATABASE)
