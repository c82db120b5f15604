"""A failed delivery is tried again on schedule, with the same bytes under the same id."""

from collections.abc import Iterator
from functools import partial

import pytest

from tests.support.api.api_client import Api, Job
from tests.support.api.api_shapes import SendAttempt
from tests.support.receivers.webhook_receiver import Delivery, Receiver
from tests.support.waiting import eventually

ECHO = {"x": [[1.0]]}
JITTER = 0.8  # the shortest share of a delay
TIMEOUT = 15.0  # seconds of an attempt
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
        assert delivery.at - TIMEOUT < delivery.timestamp <= delivery.at + 1
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


async def test_receiver_that_was_down_gets_its_message(api: Api, closed_receiver: Receiver) -> None:
    inbox = closed_receiver.inbox()

    async def submit_while_it_is_down() -> Job | None:
        """Return a job whose webhook arrived, or None if all attempts came before the receiver was open."""
        job = await api.submit("echo", ECHO, webhook={"url": inbox.url})
        await eventually(partial(read_attempts, api, job, 1), "an attempt is refused")
        closed_receiver.open()
        done = await api.wait_for_webhooks(job.id)
        if done.webhook_status == "succeeded":
            return done
        closed_receiver.close()
        return None

    job = await eventually(submit_while_it_is_down, "the webhook arrives", 60.0)
    (delivery,) = inbox.deliveries
    assert delivery.verify(await api.callback_secret()).data.id == job.id
    *refused, last = await eventually(partial(read_attempts, api, job, 2), "the attempts are listed")
    assert {attempt.error_code for attempt in refused} == {"connect_refused"}
    assert last.status_code == 204


async def read_attempts(api: Api, job: Job, count: int) -> list[SendAttempt] | None:
    """Return the attempts of a job's webhooks once there are at least `count`."""
    shown = (await api.list_deliveries(f"/v1/jobs/{job.id}")).items
    attempts = [attempt for delivery in shown for attempt in delivery.attempts]
    return attempts if len(attempts) >= count else None


async def test_delivery_is_given_up_after_the_last_attempt(api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox(*[500] * 10)
    job = await api.submit("echo", ECHO, webhook={"url": inbox.url})
    await inbox.wait(len(DELAYS) + 1)
    assert (await api.wait_for_webhooks(job.id)).webhook_status == "failed"
    check_same_message(inbox.deliveries, await api.callback_secret())
    assert len(inbox.deliveries) == len(DELAYS) + 1
    assert (await api.get(job.id)).status == "succeeded"
