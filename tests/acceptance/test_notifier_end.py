"""A notifier may die: what is due meanwhile is sent by the next one."""

import asyncio

from deploy.local.stack import Stack
from tests.acceptance.client import Api
from tests.acceptance.receiver import Receiver


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


async def test_a_notifier_that_is_asked_to_stop_ends_well(breakable: Stack) -> None:
    assert await asyncio.to_thread(breakable.notifiers[0].stop) == 0
