"""RabbitMQ may die, hang, cut us off, block us or lose its queues: what was accepted runs once, and is told."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import aio_pika
import httpx
import pytest

from common import ids, messages, topology
from common.messages import CancelJob, JobQueued
from deploy.local.postgres import DATABASE
from deploy.local.stack import Stack
from tests.acceptance.client import Api, Job
from tests.acceptance.doorbells import wait_for_doorbells
from tests.acceptance.logs import count_events, wait_for_event
from tests.acceptance.metrics import read_metric, wait_for_metric
from tests.acceptance.receiver import Inbox, Receiver
from tests.acceptance.samples import work
from tests.acceptance.waiting import eventually

SOON = 30.0  # seconds; a lost doorbell would only be rung again after a minute
QUICK = 3.0  # seconds for an answer to a submit, which waits for no broker: that would take 5
PACE = 0.2  # seconds between two submits
ECHO = {"x": [[1.5]]}


async def die(stack: Stack) -> None:
    await asyncio.to_thread(stack.rabbitmq.kill)
    await asyncio.to_thread(stack.rabbitmq.start)


async def hang(stack: Stack) -> None:
    """Until everybody has given it up."""
    stack.rabbitmq.freeze()
    try:
        async with httpx.AsyncClient() as http:
            for service in stack.services:

                async def given_up(url: str = f"{service.url}/readyz") -> bool:
                    return bool((await http.get(url)).json()["checks"]["broker"] == "down")

                await eventually(given_up, f"{service.name} has noticed")
    finally:
        stack.rabbitmq.thaw()


async def cut_off(stack: Stack) -> None:
    await asyncio.to_thread(stack.rabbitmq.close_connections)


async def block(stack: Stack) -> None:
    """Until the gateway has given up a publish."""
    gateway = stack.gateways[0]
    await asyncio.to_thread(stack.rabbitmq.raise_memory_alarm)
    try:
        await wait_for_event(gateway, "message.not_published", count_events(gateway, "message.not_published"))
    finally:
        await asyncio.to_thread(stack.rabbitmq.clear_memory_alarm)


async def submit_during(fault: Awaitable[None], api: Api, inbox: Inbox) -> list[Job]:
    """The jobs accepted while the fault lasts, and one right after it, each at once."""
    clock = asyncio.get_running_loop().time
    breaking = asyncio.ensure_future(fault)
    jobs: list[Job] = []
    over = False
    while not over:
        over = breaking.done()
        began = clock()
        jobs.append(await api.submit("echo", ECHO, webhook={"url": inbox.url}))
        assert clock() - began < QUICK
        await asyncio.wait([breaking], timeout=PACE)
    await breaking
    return jobs


async def check_ends(jobs: Sequence[Job], api: Api, inbox: Inbox) -> None:
    """Each has succeeded at the first attempt, and its webhook has come."""
    ended = [await api.wait(job.id, within=SOON) for job in jobs]
    assert {(job.status, job.attempt) for job in ended} == {("succeeded", 1)}
    await inbox.wait_for(jobs, await api.callback_secret(), within=SOON)


@pytest.mark.parametrize("fault", [die, hang, cut_off, block])
async def test_what_runs_or_is_accepted_while_the_broker_is_in_trouble_runs_once_and_is_told(
    breakable: Stack, api: Api, receiver: Receiver, fault: Callable[[Stack], Awaitable[None]]
) -> None:
    inbox = receiver.inbox()
    executions = breakable.triton.metrics_url, "work_executions_total"
    running = await api.submit("work", work(1000), webhook={"url": inbox.url})
    await wait_for_metric(*executions, 1, request_id=running.id)
    accepted = await submit_during(fault(breakable), api, inbox)
    await check_ends([running, *accepted], api, inbox)
    assert await read_metric(*executions, request_id=running.id) == 1


async def test_a_job_that_runs_is_not_run_again_when_its_doorbell_might_come_again(breakable: Stack, api: Api) -> None:
    executions = breakable.triton.metrics_url, "work_executions_total"
    running = await api.submit("work", work(30_000))
    await wait_for_metric(*executions, 1, request_id=running.id)
    await cut_off(breakable)
    later = await api.submit("work", work(30_000))
    try:
        await api.wait(later.id, "processing", within=SOON)  # what the broker hands out again comes before it
        job = await api.get(running.id)
        assert (job.status, job.attempt) == ("processing", 1)
        assert await read_metric(*executions, request_id=running.id) == 1
    finally:
        for each in (later, running):
            await api.http.post(f"/v1/jobs/{each.id}/cancel")
            await api.wait(each.id)


async def test_deleted_queues_come_back_at_once(breakable: Stack, api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    for queue in ("jobs.echo.normal", topology.NOTIFIER_QUEUE):
        await asyncio.to_thread(breakable.rabbitmq.delete_queue, queue)
    job = await api.submit("echo", ECHO, webhook={"url": inbox.url})
    await check_ends([job], api, inbox)


async def test_doorbells_that_were_lost_with_their_queues_are_rung_again(
    breakable: Stack, api: Api, receiver: Receiver
) -> None:
    inbox = receiver.inbox()
    (dispatcher,), (notifier,) = breakable.dispatchers, breakable.notifiers
    options = {"webhook": {"url": inbox.url}}
    await asyncio.to_thread(notifier.stop)
    told_late = await api.run("echo", ECHO, **options)
    await asyncio.to_thread(dispatcher.stop)
    run_late = await api.submit("echo", ECHO, **options)
    await wait_for_doorbells(breakable)
    for queue in ("jobs.echo.normal", topology.NOTIFIER_QUEUE):
        await asyncio.to_thread(breakable.rabbitmq.delete_queue, queue)
    for statement in (  # a minute goes by
        "UPDATE jobs SET ring_at = now() WHERE status = 'queued'",
        "UPDATE events SET created_at = now() - interval '1 minute' WHERE fanned_out_at IS NULL",
    ):
        await asyncio.to_thread(breakable.postgres.query, statement, DATABASE)
    for service in (dispatcher, notifier):
        await asyncio.to_thread(service.start)
    await check_ends([told_late, run_late], api, inbox)


async def test_doorbells_that_come_late_or_twice_change_nothing(stack: Stack, api: Api) -> None:
    executions = stack.triton.metrics_url, "work_executions_total"
    job = await api.submit("work", work(1000))
    await wait_for_metric(*executions, 1, request_id=job.id)
    job_id = ids.parse(ids.Kind.JOB, job.id)
    assert job_id is not None
    connection = await aio_pika.connect(stack.rabbitmq.url)
    async with connection:
        channel = await connection.channel()
        for exchange, key, message in (
            (topology.CONTROL, "job.cancel", CancelJob(job_id)),  # of an earlier life
            (topology.JOBS, "job.normal.work", JobQueued(job_id)),
            (topology.JOBS, "job.normal.echo", JobQueued(job_id)),
        ):
            door = await channel.get_exchange(exchange, ensure=False)
            await door.publish(aio_pika.Message(messages.encode(message)), key)
    ended = await api.wait(job.id)
    assert (ended.status, ended.attempt) == ("succeeded", 1)
    assert await read_metric(*executions, request_id=job.id) == 1
