"""A subscription whose receiver answers 410 is disabled, reported, enabled again, and recovered."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.api.api_client import Api, read
from tests.support.api.api_shapes import Recovery, Subscription
from tests.support.receivers.threaded_server import Reply
from tests.support.receivers.webhook_receiver import Receiver, WebhookDisabled
from tests.support.waiting import eventually

ECHO = {"x": [[1.0]]}
ENDS = ["job.succeeded"]


async def recover(api: Api, webhook: Subscription, **body: str) -> Recovery:
    """Start a recovery and return it once it is done."""
    path = f"/v1/webhooks/{webhook.id}"
    answer = await api.http.post(f"{path}/recoveries", json=body)
    started = read(answer, 202, Recovery)
    assert answer.headers["location"] == f"{path}/recoveries/{started.id}"
    assert (started.webhook_id, started.status, started.recovered) == (webhook.id, "processing", 0)

    async def poll() -> Recovery | None:
        found = read(await api.http.get(f"{path}/recoveries/{started.id}"), 200, Recovery)
        return found if found.status == "completed" else None

    return await eventually(poll, f"{started.id} is done")


async def test_410_disables_a_subscription_until_it_is_enabled(api: Api, receiver: Receiver) -> None:
    leaving, watching = receiver.inbox(410), receiver.inbox()
    async with (
        api.subscribed(leaving.url, events=ENDS, description="leaving") as subscription,
        api.subscribed(watching.url, events=["webhook.disabled", *ENDS]) as watcher,
    ):
        path, start = f"/v1/webhooks/{subscription.id}", datetime.now(UTC) - timedelta(minutes=1)
        first = await api.submit("echo", ECHO)
        await leaving.wait()
        (notice,) = [each for each in await watching.wait(2) if b'"webhook.disabled"' in each.request.body]
        notified = notice.read(watcher.secret or "", WebhookDisabled).data
        shown = read(await api.http.get(path), 200, Subscription)
        assert (shown.status, shown.disabled_reason, shown.disabled_at) == ("disabled", "gone", notified.disabled_at)
        assert (notified.id, notified.url, notified.description) == (subscription.id, leaving.url, "leaving")
        assert (notified.status, notified.disabled_reason) == ("disabled", "gone")
        assert (await api.wait_for_webhooks(first.id)).webhook_status == "failed"

        await api.submit("echo", ECHO)
        await watching.wait(3)
        assert len(leaving.deliveries) == 1  # it gets nothing, although the other subscription has its webhook
        delivery = await api.wait_for_delivery(leaving.deliveries[0].id)
        assert delivery.results == [(410, "http_status")]
        for refused in (
            await api.http.post(f"/v1/deliveries/{delivery.id}/redeliver"),
            await api.http.post(f"{path}/recoveries", json={"since": start.isoformat()}),
        ):
            assert (refused.status_code, refused.json()["type"]) == (409, "urn:charonia:problem:conflict")

        enabled = read(await api.http.post(f"{path}/enable"), 200, Subscription)
        assert (enabled.status, enabled.disabled_at, enabled.disabled_reason) == ("enabled", None, None)
        assert read(await api.http.get(path), 200, Subscription) == enabled
        assert (await recover(api, subscription, since=start.isoformat())).recovered == 1
        again = (await leaving.wait(2))[1]
        assert (again.id, again.request.body) == (delivery.id, leaving.deliveries[0].request.body)
        assert (await api.wait_for_webhooks(first.id)).webhook_status == "succeeded"


async def test_a_client_disables_a_subscription_and_enables_it(api: Api, other_tenant: Api, receiver: Receiver) -> None:
    later = Reply(503, {"retry-after": "60"})  # not before the subscription is disabled
    inbox, watching = receiver.inbox(later), receiver.inbox()
    async with (
        api.subscribed(inbox.url, events=ENDS) as subscription,
        api.subscribed(watching.url, events=ENDS) as watcher,
    ):
        path, start = f"/v1/webhooks/{subscription.id}", datetime.now(UTC) - timedelta(minutes=1)
        first = await api.submit("echo", ECHO)
        (failed,) = await inbox.wait()
        disabled = read(await api.http.post(f"{path}/disable"), 200, Subscription)
        assert (disabled.status, disabled.disabled_reason) == ("disabled", "manual")
        assert read(await api.http.post(f"{path}/disable"), 200, Subscription) == disabled
        assert read(await api.http.get(path), 200, Subscription) == disabled
        assert (await other_tenant.http.post(f"/v1/webhooks/{watcher.id}/disable")).status_code == 404
        assert (await api.wait_for_delivery(failed.id, "canceled")).results == [(503, "http_status")]

        await api.submit("echo", ECHO)
        await watching.wait(2)
        assert len(inbox.deliveries) == 1  # although the other subscription has its webhook

        read(await api.http.post(f"{path}/enable"), 200, Subscription)
        assert (await recover(api, subscription, since=start.isoformat())).recovered == 1
        assert (await inbox.wait(2))[1].id == failed.id
        assert (await api.wait_for_webhooks(first.id)).webhook_status == "succeeded"


async def test_recovery_sends_each_failed_delivery_once_and_nothing_else(api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox(410)
    async with api.subscribed(inbox.url, events=ENDS) as subscription:
        path = f"/v1/webhooks/{subscription.id}"
        await api.run("echo", ECHO)
        (failed,) = await inbox.wait()
        await api.wait_for_delivery(failed.id)
        await api.http.post(f"{path}/enable")
        await api.run("echo", ECHO)
        good = (await inbox.wait(2))[1]
        middle = (await api.wait_for_delivery(good.id)).created_at
        later = await recover(api, subscription, since=middle.isoformat())
        assert (later.recovered, later.since) == (0, middle)
        before = await recover(api, subscription, since="2020-01-01T00:00:00Z", until=middle.isoformat())
        assert (before.recovered, before.until) == (1, middle)
        assert (await recover(api, subscription, since="0001-01-01T00:00:00+14:00")).recovered == 0
        assert [each.id for each in await inbox.wait(3)] == [failed.id, good.id, failed.id]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/since"),
        ({"since": "2026-01-01T00:00:00"}, "/since"),
        ({"since": "2026-01-01T00:00:00Z", "until": "2026-01-01T00:00:00Z"}, "/until"),
        ({"since": "9998-01-01T00:00:00Z", "until": "9999-01-01T00:00:00Z"}, "/until"),
        ({"since": "2026-01-01T00:00:00Z", "from": "x"}, "/from"),
    ],
)
async def test_recovery_requires_valid_times(api: Api, receiver: Receiver, body: dict[str, str], pointer: str) -> None:
    async with api.subscribed(receiver.inbox().url) as subscription:
        response = await api.http.post(f"/v1/webhooks/{subscription.id}/recoveries", json=body)
    assert response.status_code == 422
    assert [error["pointer"] for error in response.json()["errors"]] == [pointer]


async def test_tenants_cannot_act_on_subscriptions_of_others(api: Api, other_tenant: Api, receiver: Receiver) -> None:
    since = {"since": "2026-01-01T00:00:00Z"}
    async with api.subscribed(receiver.inbox(410).url) as subscription:
        path = f"/v1/webhooks/{subscription.id}"
        started = await api.http.post(f"{path}/recoveries", json=since)
        responses = [
            await other_tenant.http.patch(path, json={"description": "mine"}),
            await other_tenant.http.post(f"{path}/recoveries", json=since),
            await other_tenant.http.get(f"{path}/recoveries/{started.json()['id']}"),
            *[await other_tenant.http.post(f"{path}/{action}") for action in ("rotate", "test", "enable")],
        ]
        assert [(each.status_code, each.json()["type"]) for each in responses] == [
            (404, "urn:charonia:problem:not_found")
        ] * len(responses)
        assert read(await api.http.get(path), 200, Subscription).description is None
