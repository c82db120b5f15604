"""An endpoint gets no more attempts at once, or per second, than its limits allow."""

import asyncio
from datetime import timedelta

from tests.support.api.api_client import Api
from tests.support.database.backlog import ENDPOINT_CONCURRENCY
from tests.support.receivers.slow_receiver import SlowInbox
from tests.support.receivers.webhook_receiver import Receiver
from tests.support.waiting import eventually

ECHO = {"x": [[1.0]]}
EVENTS = ["job.succeeded"]
JOBS = ENDPOINT_CONCURRENCY + 15
RATE = 20  # a second


async def test_endpoint_concurrency_is_limited_and_does_not_delay_others(api: Api, receiver: Receiver) -> None:
    slow, quick = receiver.add_inbox(SlowInbox), receiver.inbox()

    async def is_full() -> bool:
        return slow.waiting == ENDPOINT_CONCURRENCY

    async with api.subscribed(slow.url, events=EVENTS), api.subscribed(quick.url, events=EVENTS):
        try:
            # At once: the first attempts time out after 15 s.
            await asyncio.gather(*(api.submit("echo", ECHO) for _ in range(JOBS)))
            await quick.wait(JOBS)
            await eventually(is_full, f"{ENDPOINT_CONCURRENCY} attempts are in flight")
        finally:
            slow.released.set()
        await slow.wait(JOBS)
    assert slow.most_waiting == ENDPOINT_CONCURRENCY
    assert len(slow.deliveries) == JOBS


async def test_rate_limit_bounds_attempts_per_second(api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    async with api.subscribed(inbox.url, events=EVENTS, rate_limit=RATE) as subscription:
        for _ in range(2 * RATE):
            await api.submit("echo", ECHO)
        arrived = [each.at for each in await inbox.wait(2 * RATE)]
        shown = await api.list_all_deliveries(f"/v1/webhooks/{subscription.id}")
    assert max(arrived) - min(arrived) >= 2 * 0.8  # seconds
    sent = [each.attempts[0].started_at for each in shown if each.attempts]
    in_a_second = [sum(start <= at < start + timedelta(seconds=1) for at in sent) for start in sent]
    assert max(in_a_second) <= RATE + RATE // 10  # attempts are released in portions of a tenth of a second
