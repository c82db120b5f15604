"""`webhook.test` makes one attempt at once and returns its result."""

import msgspec

from deploy.local.processes.ports import HOST, free_ports
from tests.support.api.api_client import Api, read
from tests.support.api.api_shapes import Strict, Subscription, WebhookTestResult
from tests.support.api.model_inputs import work
from tests.support.receivers.threaded_server import Reply
from tests.support.receivers.webhook_receiver import Receiver

ECHO = {"x": [[1.0]]}
SUCCEEDED = ["job.succeeded"]
FAILURES_TO_OPEN = 20  # failures in a row
OUTAGE_MS = 1500  # longer than any delay between attempts


class WebhookTestData(Strict, frozen=True):
    id: str
    description: str | None


class WebhookTestEvent(Strict, frozen=True):
    type: str
    timestamp: str
    data: WebhookTestData


async def send_test(api: Api, subscription: Subscription) -> WebhookTestResult:
    return read(await api.http.post(f"/v1/webhooks/{subscription.id}/test"), 200, WebhookTestResult)


async def test_test_event_is_sent_and_returns_its_attempt(api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox(Reply(200, {}, b"hello"))
    async with api.subscribed(inbox.url, events=["job.failed"], description="mine") as subscription:
        result = await send_test(api, subscription)
        (delivery,) = inbox.deliveries
        event = delivery.read(subscription.secret or "", WebhookTestEvent)
        assert (event.type, event.data) == ("webhook.test", WebhookTestData(subscription.id, "mine"))
        assert (result.delivery_id, result.number) == (delivery.id, 1)
        assert (result.status_code, result.error_code, result.response) == (200, None, "hello")
        assert 0 <= result.duration_ms < 10_000
        shown = await api.wait_for_delivery(result.delivery_id)
        assert (shown.event_type, shown.job_id, shown.status) == ("webhook.test", None, "succeeded")
        assert [msgspec.structs.asdict(each) for each in shown.attempts] == [
            {name: value for name, value in msgspec.structs.asdict(result).items() if name != "delivery_id"}
        ]


async def test_failed_test_event_is_not_retried(api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox(500, 500)
    async with api.subscribed(inbox.url, events=SUCCEEDED) as subscription:
        result = await send_test(api, subscription)
        assert (result.status_code, result.error_code) == (500, "http_status")
        assert (await api.wait_for_delivery(result.delivery_id)).status == "exhausted"
        second = await send_test(api, subscription)
        assert second.delivery_id != result.delivery_id
        await api.submit("echo", ECHO)
        deliveries = await inbox.wait(3)
        assert [each.id for each in deliveries[:2]] == [result.delivery_id, second.delivery_id]


async def test_refused_connection_is_reported(api: Api) -> None:
    async with api.subscribed(f"http://{HOST}:{free_ports(1)[0]}/") as subscription:
        result = await send_test(api, subscription)
    assert (result.status_code, result.error_code, result.response) == (None, "connect_refused", "")


async def test_disabled_subscription_can_be_tested(api: Api, receiver: Receiver) -> None:
    async with api.subscribed(receiver.inbox(410).url, events=SUCCEEDED) as subscription:
        assert (await send_test(api, subscription)).status_code == 410
        assert (await send_test(api, subscription)).status_code == 204
        shown = read(await api.http.get(f"/v1/webhooks/{subscription.id}"), 200, Subscription)
        assert (shown.status, shown.disabled_reason) == ("disabled", "gone")


async def test_open_circuit_pauses_deliveries_until_a_test_event_succeeds(
    api: Api, receiver: Receiver, own_receiver: Receiver
) -> None:
    inbox, other = receiver.inbox(*[500] * 2 * FAILURES_TO_OPEN), own_receiver.inbox()
    async with api.subscribed(inbox.url, events=SUCCEEDED) as subscription:
        jobs = [await api.submit("echo", ECHO) for _ in range(8)]
        for job in jobs:
            await api.wait(job.id)  # otherwise a busy machine gives up the first before most are sent
        await inbox.wait(FAILURES_TO_OPEN)
        await api.submit("work", work(OUTAGE_MS), webhook={"url": other.url, "events": SUCCEEDED}, priority="high")
        await other.wait()
        before = len(inbox.deliveries)
        assert before <= FAILURES_TO_OPEN + 1  # at most one probe, although others were due
        for job in [await api.submit("echo", ECHO) for _ in range(3)]:
            await api.wait(job.id)  # the earlier ones may be given up by now
        assert (await send_test(api, subscription)).status_code == 500
        assert len(inbox.deliveries) <= before + 2
        inbox.answers.clear()
        assert (await send_test(api, subscription)).status_code == 204
        pending = [
            each.id for each in (await api.list_deliveries(f"/v1/webhooks/{subscription.id}", status="pending")).items
        ]
        for delivery in pending:
            assert (await api.wait_for_delivery(delivery)).status == "succeeded"
        assert len({each.id for each in inbox.deliveries[before + 2 :]}) >= 3
