"""Nobody is told of a change for which nobody waits, and whoever waits is told all the same."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import aio_pika
import httpx
import pytest
from aio_pika.abc import AbstractIncomingMessage

from common import ids, messages, topology
from common.messages import JobsChanged
from deploy.local.services import DEVELOPMENT_KEY, Service
from deploy.local.settings import ROOT
from deploy.local.stack import Stack
from tests.acceptance.client import Api, Job, read
from tests.acceptance.dispatching import dispatching
from tests.acceptance.logs import count_events, wait_for_event
from tests.acceptance.samples import work
from tests.acceptance.serving import another_gateway
from tests.acceptance.waiting import eventually

ECHO = {"x": [[1.0]]}
MEMORY = 4.0  # seconds
FORGETFUL = {
    "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent / "forgetful"), str(ROOT)]),
    "TEST_MEMORY": str(MEMORY),
}
LATE = 10.0  # seconds: the slow look that finds lost rings comes after 15


@asynccontextmanager
async def hearing(stack: Stack) -> AsyncIterator[list[UUID]]:
    """The jobs that are rung for from now on, in order."""
    rung: list[UUID] = []

    async def hear(raw: AbstractIncomingMessage) -> None:
        message = messages.decode(raw.body)
        assert isinstance(message, JobsChanged)
        rung.extend(message.job_ids)

    connection = await aio_pika.connect(stack.rabbitmq.url)
    async with connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind(topology.CHANGES)
        await queue.consume(hear, no_ack=True)
        yield rung


@pytest.fixture
async def forgetful(breakable: Stack, api: Api) -> AsyncIterator[Service]:
    """A dispatcher in place of the stack's, which has heard of nobody who waits for longer than it remembers."""
    async with dispatching(breakable, **FORGETFUL) as dispatcher:
        await api.run("work", work(round(MEMORY * 1000)))
        yield dispatcher


@pytest.fixture
async def patient(stack: Stack) -> AsyncIterator[httpx.AsyncClient]:
    """A client that has the time, of a gateway where nobody has waited yet."""
    headers = {"Authorization": f"Bearer {DEVELOPMENT_KEY}"}
    async with (
        another_gateway(stack) as gateway,
        httpx.AsyncClient(base_url=gateway.url, headers=headers, timeout=90) as client,
    ):
        yield client


async def wait_for_ring(rung: list[UUID], job: Job) -> None:
    async def look() -> bool:
        return ids.parse(ids.Kind.JOB, job.id) in rung

    await eventually(look, f"{job.id} is rung for")


@pytest.mark.usefixtures("patient", "forgetful")  # in this order: a gateway that has just begun looks after 2 s
async def test_dispatchers_ring_while_somebody_waits(breakable: Stack, api: Api, patient: httpx.AsyncClient) -> None:
    async with hearing(breakable) as rung:
        unheard = await api.run("echo", ECHO)
        heard = await api.submit("work", work(2000))  # longer than a gateway looks for what was not rung for
        began = time.monotonic()
        job = read(await patient.get(f"/v1/jobs/{heard.id}?wait=60"), 200, Job)
        assert (job.status, time.monotonic() - began < LATE) == ("succeeded", True)
        await wait_for_ring(rung, heard)
        assert ids.parse(ids.Kind.JOB, unheard.id) not in rung


async def test_a_dispatcher_that_was_cut_off_rings(breakable: Stack, api: Api, forgetful: Service) -> None:
    """It may have missed that somebody waits."""
    (gateway,) = breakable.gateways
    before = {member: count_events(member, "broker.connected") for member in (gateway, forgetful)}
    await asyncio.to_thread(breakable.rabbitmq.close_connections)
    async with hearing(breakable) as rung:
        for member, count in before.items():
            await wait_for_event(member, "broker.connected", count + 1)  # each has two connections
        await wait_for_ring(rung, await api.run("echo", ECHO))
