"""A notifier may be killed or stopped. It finishes its attempts, and the next notifier sends what is due."""

import asyncio

import aio_pika

from common.rabbitmq import topology
from deploy.local.stack import Stack
from tests.support.api.api_client import Api
from tests.support.receivers.slow_receiver import SlowInbox
from tests.support.receivers.webhook_receiver import Receiver
from tests.support.waiting import eventually


async def test_webhook_due_while_no_notifier_runs_is_sent_by_the_next(
    breakable: Stack, api: Api, receiver: Receiver
) -> None:
    notifier = breakable.notifiers[0]
    await asyncio.to_thread(notifier.kill)
    inbox = receiver.inbox()
    submitted = await api.submit("echo", {"x": [[1.0]]}, webhook={"url": inbox.url})
    job = await api.wait(submitted.id)
    assert (job.status, job.webhook_status) == ("succeeded", "pending")

    await asyncio.to_thread(notifier.start)
    (delivery,) = await inbox.wait()
    assert delivery.verify(await api.callback_secret()).data.id == job.id
    assert (await api.wait_for_webhooks(job.id)).webhook_status == "succeeded"


async def test_stopping_notifier_finishes_its_attempts(breakable: Stack, api: Api, receiver: Receiver) -> None:
    slow = receiver.add_inbox(SlowInbox)
    submitted = await api.submit("echo", {"x": [[1.0]]}, webhook={"url": slow.url})

    async def is_in_flight() -> bool:
        return slow.waiting == 1

    await eventually(is_in_flight, "an attempt is in flight")
    stopping = asyncio.create_task(asyncio.to_thread(breakable.notifiers[0].stop))
    try:
        await eventually(lambda: has_no_consumer(breakable), "the notifier consumes no more events")
    finally:
        slow.released.set()
        code = await stopping
    assert code == 0
    assert (await api.get(submitted.id)).webhook_status == "succeeded"
    assert len(slow.deliveries) == 1


async def has_no_consumer(stack: Stack) -> bool:
    """Return whether no notifier consumes events from the broker."""
    async with await aio_pika.connect(stack.rabbitmq.url) as connection:
        channel = await connection.channel()
        found = await channel.declare_queue(topology.NOTIFIER_QUEUE, passive=True)
    return not found.declaration_result.consumer_count
