"""A failed delivery is tried again on schedule, with the same bytes under the same id."""

from collections.abc import Iterator

import pytest

from deploy.local.stack import Stack
from tests.support.api_client import Api
from tests.support.scraped_metrics import read_metric, wait_for_metric
from tests.support.webhook_receiver import Delivery, Receiver

ECHO = {"x": [[1.0]]}
JITTER = 0.8  # the shortest share of a delay
DELAYS = [0.5, 1.0, 0.5, 0.5]  # seconds between attempts; see conftest.py


@pytest.fixture
def closed_receiver() -> Iterator[Receiver]:
    """A receiver that does not listen yet."""
    receiver = Receiver()
    yield receiver
    receiver.close()


def check_same_message(deliveries: list[Delivery], secret: str) -> None:
    """Check that every attempt has the same id and bytes, and a signature with its own timestamp."""
    assert len({(delivery.id, delivery.request.body) for delivery in deliveries}) == 1
    for delivery in deliveries:
        delivery.verify(secret)
        assert delivery.at - 2 < delivery.timestamp <= delivery.at + 1
    assert deliveries[0].timestamp < deliveries[-1].timestamp


async def test_failing_receiver_gets_the_same_message_again_on_schedule(api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox(500, 503)
    job = await api.submit("echo", ECHO, webhook={"url": inbox.url})
    deliveries = await inbox.wait(3)
    check_same_message(deliveries, await api.callback_secret())
    for earlier, later, delay in zip(deliveries, deliveries[1:], DELAYS, strict=False):
        assert later.at - earlier.at >= delay * JITTER
    assert (await api.wait_for_webhooks(job.id)).webhook_status == "succeeded"

    later_job = await api.submit("echo", ECHO, webhook={"url": inbox.url})
    *before, last = await inbox.wait(4)
    assert (before, last.verify(await api.callback_secret()).data.id) == (deliveries, later_job.id)


async def test_receiver_that_was_down_gets_its_message(stack: Stack, api: Api, closed_receiver: Receiver) -> None:
    metrics = f"{stack.notifiers[0].url}/metrics"
    before = await read_metric(metrics, "charonia_deliveries_total", result="failed")
    inbox = closed_receiver.inbox()
    job = await api.submit("echo", ECHO, webhook={"url": inbox.url})
    await wait_for_metric(metrics, "charonia_deliveries_total", before + 2, result="failed")
    closed_receiver.open()
    (delivery,) = await inbox.wait()
    assert delivery.verify(await api.callback_secret()).data.id == job.id
    assert (await api.wait_for_webhooks(job.id)).webhook_status == "succeeded"
    assert await read_metric(metrics, "charonia_deliveries_total", result="failed") == before + 2


async def test_delivery_is_given_up_after_the_last_attempt(api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox(*[500] * 10)
    job = await api.submit("echo", ECHO, webhook={"url": inbox.url})
    await inbox.wait(len(DELAYS) + 1)
    assert (await api.wait_for_webhooks(job.id)).webhook_status == "failed"
    check_same_message(inbox.deliveries, await api.callback_secret())
    assert len(inbox.deliveries) == len(DELAYS) + 1
    assert (await api.get(job.id)).status == "succeeded"
