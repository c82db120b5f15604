"""A notifier may die, or be asked to stop: it finishes what it sends, and what is due meanwhile the next one sends."""

import asyncio

import aio_pika

from common import topology
from deploy.local.stack import Stack
from tests.acceptance.client import Api
from tests.acceptance.receiver import Receiver
from tests.acceptance.slow import Slow
from tests.acceptance.waiting import eventually


async def test_a_webhook_due_while_no_notifier_runs_is_sent_by_the_next(
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


async def test_a_notifier_that_is_asked_to_stop_finishes_what_it_sends(
    breakable: Stack, api: Api, receiver: Receiver
) -> None:
    slow = receiver.place(Slow)
    submitted = await api.submit("echo", {"x": [[1.0]]}, webhook={"url": slow.url})

    async def under_way() -> bool:
        return slow.waiting == 1

    await eventually(under_way, "an attempt is under way")
    stopping = asyncio.create_task(asyncio.to_thread(breakable.notifiers[0].stop))
    try:
        await eventually(lambda: is_unconsumed(breakable), "the notifier takes no more events")
    finally:
        slow.released.set()
        code = await stopping
    assert code == 0
    assert (await api.get(submitted.id)).webhook_status == "succeeded"
    assert len(slow.deliveries) == 1


async def is_unconsumed(stack: Stack) -> bool:
    """Whether nobody takes events from the broker."""
    async with await aio_pika.connect(stack.rabbitmq.url) as connection:
        channel = await connection.channel()
        found = await channel.declare_queue(topology.NOTIFIER_QUEUE, passive=True)
    return not found.declaration_result.consumer_count
