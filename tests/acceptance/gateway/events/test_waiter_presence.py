"""Dispatchers publish changes of jobs only while a client waits. No client misses a change."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import aio_pika
import httpx
import pytest
from aio_pika.abc import AbstractIncomingMessage

from common import ids
from common.rabbitmq import messages, topology
from common.rabbitmq.messages import JobsChanged
from deploy.local.services import DEVELOPMENT_KEY, Service
from deploy.local.settings import ROOT
from deploy.local.stack import Stack
from tests.support.api.api_client import Api, Job, read
from tests.support.api.model_inputs import work
from tests.support.stacks.own_dispatcher import replace_dispatcher
from tests.support.stacks.own_gateway import another_gateway
from tests.support.telemetry.service_logs import count_events, wait_for_event
from tests.support.waiting import eventually

ECHO = {"x": [[1.0]]}
PRESENCE_SECONDS = 8.0  # longer than the job that a client waits for in a test
SHORT_PRESENCE = {
    "PYTHONPATH": os.pathsep.join([str(ROOT / "tests" / "support" / "short_presence"), str(ROOT)]),
    "TEST_MEMORY": str(PRESENCE_SECONDS),
}
TOO_LATE = 10.0  # seconds: the slow poll that finds lost changes comes after 15


@asynccontextmanager
async def collect_changes(stack: Stack) -> AsyncIterator[list[UUID]]:
    """Collect the ids of the jobs published as changed from now on, in order."""
    changed: list[UUID] = []

    async def on_message(raw: AbstractIncomingMessage) -> None:
        message = messages.decode(raw.body)
        assert isinstance(message, JobsChanged)
        changed.extend(message.job_ids)

    connection = await aio_pika.connect(stack.rabbitmq.url)
    async with connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind(topology.CHANGES_EXCHANGE)
        await queue.consume(on_message, no_ack=True)
        yield changed


@pytest.fixture
async def dispatcher(breakable: Stack, api: Api) -> AsyncIterator[Service]:
    """A dispatcher in place of the stack's. The presence of earlier waiters has expired there."""
    async with replace_dispatcher(breakable, **SHORT_PRESENCE) as replacement:
        await forget_waiters(api)
        yield replacement


async def forget_waiters(api: Api) -> None:
    """Run a job until the presence of earlier waiters has expired."""
    await api.run("work", work(round(PRESENCE_SECONDS * 1000)))


@pytest.fixture
async def waiting_client(stack: Stack) -> AsyncIterator[httpx.AsyncClient]:
    """A client with a long timeout, of a gateway on which nobody has waited yet."""
    headers = {"Authorization": f"Bearer {DEVELOPMENT_KEY}"}
    async with (
        another_gateway(stack) as gateway,
        httpx.AsyncClient(base_url=gateway.url, headers=headers, timeout=90) as client,
    ):
        yield client


async def wait_for_change(changed: list[UUID], job: Job) -> None:
    async def poll() -> bool:
        return ids.parse(ids.Kind.JOB, job.id) in changed

    await eventually(poll, f"{job.id} is published as changed")


@pytest.mark.usefixtures("waiting_client", "dispatcher")  # in this order, because a new gateway polls after 2 s
async def test_changes_are_published_only_while_a_client_waits_and_after_a_lost_connection(
    breakable: Stack, api: Api, waiting_client: httpx.AsyncClient, dispatcher: Service
) -> None:
    async with collect_changes(breakable) as changed:
        unawaited = await api.run("echo", ECHO)
        awaited = await api.submit("work", work(3000))  # longer than a new gateway polls for changes
        began = time.monotonic()
        job = read(await waiting_client.get(f"/v1/jobs/{awaited.id}?wait=60"), 200, Job)
        assert (job.status, time.monotonic() - began < TOO_LATE) == ("succeeded", True)
        await wait_for_change(changed, awaited)
        assert ids.parse(ids.Kind.JOB, unawaited.id) not in changed
    await forget_waiters(api)
    await check_changes_after_a_lost_connection(breakable, api, dispatcher)


async def check_changes_after_a_lost_connection(stack: Stack, api: Api, dispatcher: Service) -> None:
    """The dispatcher may have missed a message that says that a client waits."""
    (gateway,) = stack.gateways
    before = {member: count_events(member, "broker.connected") for member in (gateway, dispatcher)}
    await asyncio.to_thread(stack.rabbitmq.close_connections)
    async with collect_changes(stack) as changed:
        for member, count in before.items():
            await wait_for_event(member, "broker.connected", count + 1)  # each service has two connections
        await wait_for_change(changed, await api.run("echo", ECHO))
