"""No more at a time, nor a second, than an endpoint is to have."""

from datetime import timedelta

from tests.acceptance.backlog import EACH
from tests.acceptance.client import Api
from tests.acceptance.receiver import Receiver
from tests.acceptance.slow import Slow
from tests.acceptance.waiting import eventually

ECHO = {"x": [[1.0]]}
ENDS = ["job.succeeded"]
JOBS = EACH + 15
RATE = 20  # a second


async def test_an_endpoint_has_only_so_many_at_a_time_and_takes_none_from_others(api: Api, receiver: Receiver) -> None:
    slow, quick = receiver.place(Slow), receiver.inbox()

    async def full() -> bool:
        return slow.waiting == EACH

    async with api.subscribed(slow.url, events=ENDS), api.subscribed(quick.url, events=ENDS):
        try:
            for _ in range(JOBS):
                await api.submit("echo", ECHO)
            await quick.wait(JOBS)
            await eventually(full, f"{EACH} are under way")
        finally:
            slow.released.set()
        await slow.wait(JOBS)
    assert slow.most == EACH
    assert len(slow.deliveries) == JOBS


async def test_an_endpoint_has_no_more_a_second_than_its_rate_limit(api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    async with api.subscribed(inbox.url, events=ENDS, rate_limit=RATE) as subscription:
        for _ in range(2 * RATE):
            await api.submit("echo", ECHO)
        arrived = [each.at for each in await inbox.wait(2 * RATE)]
        shown = await api.list_all_deliveries(f"/v1/webhooks/{subscription.id}")
    assert max(arrived) - min(arrived) >= 2 * 0.8  # seconds
    sent = [each.attempts[0].started_at for each in shown if each.attempts]
    in_a_second = [sum(start <= at < start + timedelta(seconds=1) for at in sent) for start in sent]
    assert max(in_a_second) <= RATE + RATE // 10  # a tenth of a second's worth goes at a time
