"""RabbitMQ may die, hang, drop connections, block publishers or lose queues.

Accepted jobs run once and are reported.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from statistics import median

import aio_pika
import httpx
import pytest

from common import ids
from common.rabbitmq import messages, topology
from common.rabbitmq.messages import CancelJob, JobsQueued, QueuedJob
from deploy.local.stack import Stack
from tests.support.api.api_client import Api, Job
from tests.support.api.model_inputs import work
from tests.support.receivers.webhook_receiver import Inbox, Receiver
from tests.support.stacks.queues import wait_for_message
from tests.support.telemetry.scraped_metrics import read_metric, wait_for_metric
from tests.support.telemetry.service_logs import count_events, wait_for_event
from tests.support.waiting import eventually

SOON = 30.0  # seconds
SUBMIT_SECONDS = 3.0  # seconds for a submit; one that waits for the broker would take 5
INTERVAL = 0.2  # seconds between two submits
ECHO = {"x": [[1.5]]}

Fault = Callable[[Stack], Awaitable[None]]


async def kill(stack: Stack) -> None:
    await asyncio.to_thread(stack.rabbitmq.kill)
    await asyncio.to_thread(stack.rabbitmq.start)


async def hang(stack: Stack) -> None:
    """Freeze the broker until every service has given up its connection."""
    stack.rabbitmq.freeze()
    try:
        async with httpx.AsyncClient(timeout=SOON) as http:
            for service in stack.services:

                async def has_noticed(url: str = f"{service.url}/readyz") -> bool:
                    return bool((await http.get(url)).json()["checks"]["broker"] == "down")

                await eventually(has_noticed, f"{service.name} has noticed")
    finally:
        stack.rabbitmq.thaw()


async def block(stack: Stack) -> None:
    """Block publishers until the gateway has given up a message."""
    gateway = stack.gateways[0]
    await asyncio.to_thread(stack.rabbitmq.raise_memory_alarm)
    try:
        await wait_for_event(gateway, "message.not_published", count_events(gateway, "message.not_published"))
    finally:
        await asyncio.to_thread(stack.rabbitmq.clear_memory_alarm)


async def submit_during(fault: Awaitable[None], api: Api, inbox: Inbox) -> list[Job]:
    """Submit jobs during the fault and one right after it. Check that most are accepted quickly.

    A broker that boots takes the machine's time, so that single submits may be slow.
    """
    clock = asyncio.get_running_loop().time
    running_fault = asyncio.ensure_future(fault)
    jobs: list[Job] = []
    durations: list[float] = []
    ended = False
    while not ended:
        ended = running_fault.done()
        began = clock()
        jobs.append(await api.submit("echo", ECHO, webhook={"url": inbox.url}))
        durations.append(clock() - began)
        await asyncio.wait([running_fault], timeout=INTERVAL)
    await running_fault
    assert median(durations) < SUBMIT_SECONDS, durations
    return jobs


async def check_outcomes(jobs: Sequence[Job], api: Api, inbox: Inbox) -> None:
    """Check that each job succeeded in its first attempt and that its webhook arrived."""
    ended = [await api.wait(job.id, within=SOON) for job in jobs]
    assert {(job.status, job.attempt) for job in ended} == {("succeeded", 1)}
    await inbox.wait_for(jobs, await api.callback_secret(), within=SOON)


async def check_jobs_during(fault: Fault, breakable: Stack, api: Api, inbox: Inbox) -> None:
    executions = breakable.triton.metrics_url, "work_executions_total"
    running = await api.submit("work", work(1000), webhook={"url": inbox.url})
    await wait_for_metric(*executions, 1, request_id=running.id)
    accepted = await submit_during(fault(breakable), api, inbox)
    await check_outcomes([running, *accepted], api, inbox)
    assert await read_metric(*executions, request_id=running.id) == 1


@pytest.mark.parametrize("fault", [hang, block])
async def test_jobs_during_a_broker_fault_run_once_and_send_their_webhooks(
    breakable: Stack, api: Api, receiver: Receiver, fault: Fault
) -> None:
    await check_jobs_during(fault, breakable, api, receiver.inbox())


async def test_jobs_during_and_after_the_death_of_the_broker_run_once_and_send_their_webhooks(
    breakable: Stack, api: Api, receiver: Receiver
) -> None:
    """Those after it do not wait for the reconciler."""
    inbox, (dispatcher,) = receiver.inbox(), breakable.dispatchers
    connected = {service: count_events(service, "broker.connected") for service in breakable.services}
    await check_jobs_during(kill, breakable, api, receiver.inbox())
    for service, count in connected.items():  # each has two connections
        await wait_for_event(service, "broker.connected", count + 1)
    repeated = f"{dispatcher.url}/metrics", "charonia_wake_ups_repeated_total"
    before = await read_metric(*repeated)
    jobs = [await api.run("echo", ECHO, webhook={"url": inbox.url}) for _ in range(5)]
    await check_outcomes(jobs, api, inbox)
    # Without wake-ups of their own, it would be all five. The round on reconnection may count a job that just came, and
    # others may count one that has waited for half a second because the machine stood still.
    assert await read_metric(*repeated) - before < len(jobs)


async def test_running_job_does_not_run_again_when_its_wake_up_may_be_redelivered(breakable: Stack, api: Api) -> None:
    executions = breakable.triton.metrics_url, "work_executions_total"
    running = await api.submit("work", work(30_000))
    await wait_for_metric(*executions, 1, request_id=running.id)
    await asyncio.to_thread(breakable.rabbitmq.close_connections)
    later = await api.submit("work", work(30_000))
    try:
        await api.wait(later.id, "processing", within=SOON)  # redelivered messages come before it
        job = await api.get(running.id)
        assert (job.status, job.attempt) == ("processing", 1)
        assert await read_metric(*executions, request_id=running.id) == 1
    finally:
        for each in (later, running):
            await api.http.post(f"/v1/jobs/{each.id}/cancel")
            await api.wait(each.id)


async def test_wake_ups_lost_with_their_queues_are_sent_again(breakable: Stack, api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    (dispatcher,), (notifier,) = breakable.dispatchers, breakable.notifiers
    options = {"webhook": {"url": inbox.url}}
    await asyncio.to_thread(notifier.stop)
    late_webhook = await api.run("echo", ECHO, **options)
    await asyncio.to_thread(dispatcher.stop)
    late_job = await api.submit("echo", ECHO, **options)
    for queue in ("jobs.echo.normal", topology.NOTIFIER_QUEUE):
        await wait_for_message(breakable, queue)
        await asyncio.to_thread(breakable.rabbitmq.delete_queue, queue)
    for service in (dispatcher, notifier):
        await asyncio.to_thread(service.start)
    await check_outcomes([late_webhook, late_job], api, inbox)


async def test_late_or_repeated_wake_ups_change_nothing(stack: Stack, api: Api) -> None:
    executions = stack.triton.metrics_url, "work_executions_total"
    job = await api.submit("work", work(1000))
    await wait_for_metric(*executions, 1, request_id=job.id)
    job_id = ids.parse(ids.Kind.JOB, job.id)
    assert job_id is not None
    connection = await aio_pika.connect(stack.rabbitmq.url)
    async with connection:
        channel = await connection.channel()
        for name, key, message in (
            (topology.CONTROL_EXCHANGE, "job.cancel", CancelJob(job_id)),  # left over from an earlier cancellation
            (topology.JOBS_EXCHANGE, "job.normal.work", JobsQueued([QueuedJob(ids.new(), job_id)])),
            (topology.JOBS_EXCHANGE, "job.normal.echo", JobsQueued([QueuedJob(ids.new(), ids.new())])),
        ):
            exchange = await channel.get_exchange(name, ensure=False)
            await exchange.publish(aio_pika.Message(messages.encode(message)), key)
    ended = await api.wait(job.id)
    assert (ended.status, ended.attempt) == ("succeeded", 1)
    assert await read_metric(*executions, request_id=job.id) == 1
