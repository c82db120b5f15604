"""A subscription whose receiver wants no more: disabled, told of, enabled, and made good."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.acceptance.client import Api, read
from tests.acceptance.receiver import Disabled, Receiver
from tests.acceptance.shapes import Recovery, Subscription
from tests.acceptance.waiting import eventually

ECHO = {"x": [[1.0]]}
ENDS = ["job.succeeded"]


async def recover(api: Api, webhook: Subscription, **body: str) -> Recovery:
    """At its end."""
    path = f"/v1/webhooks/{webhook.id}"
    asked = read(await api.http.post(f"{path}/recover", json=body), 202, Recovery)
    assert (asked.webhook_id, asked.status, asked.recovered) == (webhook.id, "running", 0)

    async def look() -> Recovery | None:
        found = read(await api.http.get(f"{path}/recoveries/{asked.id}"), 200, Recovery)
        return found if found.status == "done" else None

    return await eventually(look, f"{asked.id} is done")


async def test_gone_ends_a_subscription_until_it_is_enabled_again(api: Api, receiver: Receiver) -> None:
    going, watching = receiver.inbox(410), receiver.inbox()
    async with (
        api.subscribed(going.url, events=ENDS, description="going") as subscription,
        api.subscribed(watching.url, events=["webhook.disabled", *ENDS]) as watcher,
    ):
        path, start = f"/v1/webhooks/{subscription.id}", datetime.now(UTC) - timedelta(minutes=1)
        first = await api.submit("echo", ECHO)
        await going.wait()
        (notice,) = [each for each in await watching.wait(2) if b'"webhook.disabled"' in each.request.body]
        told = notice.read(watcher.secret or "", Disabled).data
        shown = read(await api.http.get(path), 200, Subscription)
        assert (shown.status, shown.disabled_reason, shown.disabled_at) == ("disabled", "gone", told.disabled_at)
        assert (told.id, told.url, told.description) == (subscription.id, going.url, "going")
        assert (told.status, told.disabled_reason) == ("disabled", "gone")
        assert (await api.wait_for_webhooks(first.id)).webhook_status == "failed"

        await api.submit("echo", ECHO)
        await watching.wait(3)
        assert len(going.deliveries) == 1  # nothing is sent to it, though the other has heard
        delivery = await api.wait_for_delivery(going.deliveries[0].id)
        assert delivery.results == [(410, "http_status")]
        for refused in (
            await api.http.post(f"/v1/deliveries/{delivery.id}/redeliver"),
            await api.http.post(f"{path}/recover", json={"since": start.isoformat()}),
        ):
            assert (refused.status_code, refused.json()["type"]) == (409, "urn:charonia:problem:conflict")

        enabled = read(await api.http.post(f"{path}/enable"), 200, Subscription)
        assert (enabled.status, enabled.disabled_at, enabled.disabled_reason) == ("enabled", None, None)
        assert read(await api.http.get(path), 200, Subscription) == enabled
        assert (await recover(api, subscription, since=start.isoformat())).recovered == 1
        again = (await going.wait(2))[1]
        assert (again.id, again.request.body) == (delivery.id, going.deliveries[0].request.body)
        assert (await api.wait_for_webhooks(first.id)).webhook_status == "succeeded"


async def test_a_recovery_sends_each_failed_one_once_and_nothing_else(api: Api, receiver: Receiver) -> None:
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
async def test_a_recovery_needs_a_time(api: Api, receiver: Receiver, body: dict[str, str], pointer: str) -> None:
    async with api.subscribed(receiver.inbox().url) as subscription:
        answer = await api.http.post(f"/v1/webhooks/{subscription.id}/recover", json=body)
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]


async def test_another_tenants_subscription_can_not_be_acted_on(api: Api, stranger: Api, receiver: Receiver) -> None:
    since = {"since": "2026-01-01T00:00:00Z"}
    async with api.subscribed(receiver.inbox(410).url) as subscription:
        path = f"/v1/webhooks/{subscription.id}"
        asked = await api.http.post(f"{path}/recover", json=since)
        answers = [
            await stranger.http.patch(path, json={"description": "mine"}),
            await stranger.http.post(f"{path}/recover", json=since),
            await stranger.http.get(f"{path}/recoveries/{asked.json()['id']}"),
            *[await stranger.http.post(f"{path}/{action}") for action in ("rotate", "test", "enable")],
        ]
        assert [(each.status_code, each.json()["type"]) for each in answers] == [
            (404, "urn:charonia:problem:not_found")
        ] * len(answers)
        assert read(await api.http.get(path), 200, Subscription).description is None
