"""`webhook.test`: one attempt, now, and its result."""

import msgspec

from deploy.local.ports import HOST, free_ports
from tests.acceptance.client import Api, read
from tests.acceptance.listening import Reply
from tests.acceptance.receiver import Receiver
from tests.acceptance.samples import work
from tests.acceptance.shapes import Strict, Subscription, Trial

ECHO = {"x": [[1.0]]}
ENDS = ["job.succeeded"]
OPENS_AFTER = 20  # failures in a row
OUTAGE_MS = 1500  # longer than any delay between attempts


class TrialData(Strict, frozen=True):
    webhook_id: str
    description: str | None


class TrialEvent(Strict, frozen=True):
    type: str
    timestamp: str
    data: TrialData


async def try_out(api: Api, subscription: Subscription) -> Trial:
    return read(await api.http.post(f"/v1/webhooks/{subscription.id}/test"), 200, Trial)


async def test_a_test_is_sent_and_answered_with_its_attempt(api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox(Reply(200, {}, b"hello"))
    async with api.subscribed(inbox.url, events=["job.failed"], description="mine") as subscription:
        trial = await try_out(api, subscription)
        (delivery,) = inbox.deliveries
        event = delivery.read(subscription.secret or "", TrialEvent)
        assert (event.type, event.data) == ("webhook.test", TrialData(subscription.id, "mine"))
        assert (trial.delivery_id, trial.number) == (delivery.id, 1)
        assert (trial.status_code, trial.error, trial.response) == (200, None, "hello")
        assert 0 <= trial.latency_ms < 10_000
        shown = await api.wait_for_delivery(trial.delivery_id)
        assert (shown.event_type, shown.job_id, shown.status) == ("webhook.test", None, "succeeded")
        assert [msgspec.structs.asdict(each) for each in shown.attempts] == [
            {name: value for name, value in msgspec.structs.asdict(trial).items() if name != "delivery_id"}
        ]


async def test_a_test_that_fails_is_not_tried_again(api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox(500, 500)
    async with api.subscribed(inbox.url, events=ENDS) as subscription:
        trial = await try_out(api, subscription)
        assert (trial.status_code, trial.error) == (500, "http_status")
        assert (await api.wait_for_delivery(trial.delivery_id)).status == "exhausted"
        second = await try_out(api, subscription)
        assert second.delivery_id != trial.delivery_id
        await api.submit("echo", ECHO)
        deliveries = await inbox.wait(3)
        assert [each.id for each in deliveries[:2]] == [trial.delivery_id, second.delivery_id]


async def test_nobody_answers_a_test(api: Api) -> None:
    async with api.subscribed(f"http://{HOST}:{free_ports(1)[0]}/") as subscription:
        trial = await try_out(api, subscription)
    assert (trial.status_code, trial.error, trial.response) == (None, "connect_refused", "")


async def test_a_disabled_subscription_can_be_tested(api: Api, receiver: Receiver) -> None:
    async with api.subscribed(receiver.inbox(410).url, events=ENDS) as subscription:
        assert (await try_out(api, subscription)).status_code == 410
        assert (await try_out(api, subscription)).status_code == 204
        shown = read(await api.http.get(f"/v1/webhooks/{subscription.id}"), 200, Subscription)
        assert (shown.status, shown.disabled_reason) == ("disabled", "gone")


async def test_a_failing_receiver_is_left_alone_until_a_test_of_it_succeeds(
    api: Api, receiver: Receiver, own_receiver: Receiver
) -> None:
    inbox, other = receiver.inbox(*[500] * 2 * OPENS_AFTER), own_receiver.inbox()
    async with api.subscribed(inbox.url, events=ENDS) as subscription:
        jobs = [await api.submit("echo", ECHO) for _ in range(8)]
        for job in jobs:
            await api.wait(job.id)  # else, on a busy machine, most is still to come when those before it are given up
        await inbox.wait(OPENS_AFTER)
        await api.submit("work", work(OUTAGE_MS), webhook={"url": other.url, "events": ENDS}, priority="high")
        await other.wait()
        left = len(inbox.deliveries)
        assert left <= OPENS_AFTER + 1  # a probe at most, though others were due meanwhile
        for job in [await api.submit("echo", ECHO) for _ in range(3)]:
            await api.wait(job.id)  # those before may have waited a whole schedule by now, and be given up
        assert (await try_out(api, subscription)).status_code == 500
        assert len(inbox.deliveries) <= left + 2
        inbox.answers.clear()
        assert (await try_out(api, subscription)).status_code == 204
        waiting = [
            each.id for each in (await api.list_deliveries(f"/v1/webhooks/{subscription.id}", status="pending")).items
        ]
        for delivery in waiting:
            assert (await api.wait_for_delivery(delivery)).status == "succeeded"
        assert len({each.id for each in inbox.deliveries[left + 2 :]}) >= 3
