"""Every field of a subscription can be changed, and the change takes effect."""

import httpx
import msgspec
import pytest

from tests.support.api.api_client import Api, read
from tests.support.api.api_shapes import Subscription, Subscriptions
from tests.support.receivers.threaded_server import Reply
from tests.support.receivers.webhook_receiver import Receiver

ECHO = {"x": [[1.0]]}
ENDS = ["job.succeeded"]
HIDDEN = {"authorization": "***"}


async def test_patch_changes_each_field_and_keeps_the_others(api: Api, receiver: Receiver) -> None:
    before = {"models": ["echo"], "description": "first", "headers": {"Authorization": "Bearer a"}, "rate_limit": 50}
    changes = {"url": receiver.inbox().url, "events": ["*.failed"], "models": ["ocr", "echo"], "description": "second"}
    async with api.subscribed(receiver.inbox().url, events=ENDS, **before) as subscription:
        path, expected = f"/v1/webhooks/{subscription.id}", msgspec.structs.replace(subscription, secret=None)
        assert read(await api.http.get(path), 200, Subscription) == expected
        for name, value in {**changes, "rate_limit": 0, "ordered": True}.items():
            changed = read(await api.http.patch(path, json={name: value}), 200, Subscription)
            expected = msgspec.structs.replace(expected, **{name: value})
            assert changed == expected
        changed = read(await api.http.patch(path, json={"headers": {"X-Team": "ocr"}}), 200, Subscription)
        expected = msgspec.structs.replace(expected, headers={"X-Team": "***"})
        assert changed == expected
        for name in ("models", "description", "headers", "rate_limit"):
            changed = read(await api.http.patch(path, json={name: None}), 200, Subscription)
            expected = msgspec.structs.replace(expected, **{name: None})
            assert changed == expected
        assert read(await api.http.patch(path, json={}), 200, Subscription) == expected
        assert read(await api.http.get(path), 200, Subscription) == expected


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"signing": "ed25519"}, "/signing"),
        ({"format": "openai"}, "/format"),
        ({"events": ["response.completed"]}, "/events/0"),
        ({"secret": "whsec_AAAA"}, "/secret"),
        ({"status": "enabled"}, "/status"),
        ({"rate_limits": 5}, "/rate_limits"),
        ({"url": None}, "/url"),
        ({"url": "ftp://127.0.0.1/"}, "/url"),
        ({"url": "http://169.254.169.254/"}, "/url"),
        ({"url": ""}, "/url"),
        ({"events": None}, "/events"),
        ({"events": []}, "/events"),
        ({"events": ["job.*", "job.nope"]}, "/events/1"),
        ({"models": []}, "/models"),
        ({"rate_limit": -1}, "/rate_limit"),
        ({"headers": {"webhook-id": "mine"}}, "/headers/webhook-id"),
        ({"description": "\x00"}, "/description"),
    ],
)
async def test_invalid_patch_is_refused_and_changes_nothing(
    api: Api, receiver: Receiver, change: dict[str, object], pointer: str
) -> None:
    async with api.subscribed(receiver.inbox().url, events=ENDS) as subscription:
        path = f"/v1/webhooks/{subscription.id}"
        response = await api.http.patch(path, json={"description": "changed", **change})
        assert response.status_code == 422, response.text
        assert [error["pointer"] for error in response.json()["errors"]] == [pointer]
        assert read(await api.http.get(path), 200, Subscription) == msgspec.structs.replace(subscription, secret=None)


async def test_pending_deliveries_go_to_the_new_url(api: Api, receiver: Receiver) -> None:
    later = Reply(503, {"retry-after": "5"})  # time for the change
    old, new = receiver.inbox(later, *[500] * 8), receiver.inbox()
    async with api.subscribed(old.url, events=ENDS) as subscription:
        job = await api.submit("echo", ECHO)
        first, *_ = await old.wait()
        await api.http.patch(f"/v1/webhooks/{subscription.id}", json={"url": new.url, "headers": {"X-New": "yes"}})
        (second,) = await new.wait()
        assert (second.id, second.request.body) == (first.id, first.request.body)
        assert second.verify(subscription.secret or "").data.id == job.id
        assert (second.request.headers["x-new"], "x-new" in first.request.headers) == ("yes", False)
        assert (await api.wait_for_delivery(first.id)).url == new.url


async def test_hidden_header_that_is_sent_back_keeps_its_value(api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    async with api.subscribed(inbox.url, events=ENDS, headers={"X-Key": "secret"}) as subscription:
        path = f"/v1/webhooks/{subscription.id}"
        shown = read(await api.http.get(path), 200, Subscription).headers or {}
        read(await api.http.patch(path, json={"headers": {**shown, "X-Team": "ocr"}}), 200, Subscription)
        assert (await api.http.post(f"{path}/test")).json()["status_code"] == 204
        (sent,) = await inbox.wait()
        assert (sent.request.headers["x-key"], sent.request.headers["x-team"]) == ("secret", "ocr")


async def test_hidden_header_without_a_value_is_refused(api: Api, receiver: Receiver) -> None:
    url, hidden = receiver.inbox().url, {"headers": {"X-Key": "***"}}
    created = await api.http.post("/v1/webhooks", json={"url": url, **hidden})
    assert (created.status_code, created.json()["errors"][0]["pointer"]) == (422, "/headers/X-Key")
    async with api.subscribed(url) as subscription:
        changed = await api.http.patch(f"/v1/webhooks/{subscription.id}", json=hidden)
        assert (changed.status_code, changed.json()["errors"][0]["pointer"]) == (422, "/headers/X-Key")


async def test_values_of_headers_do_not_move_to_another_origin(api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    moved = {"url": str(httpx.URL(inbox.url).copy_with(port=44444))}
    async with api.subscribed(inbox.url, headers={"Authorization": "Bearer secret"}) as subscription:
        path = f"/v1/webhooks/{subscription.id}"
        for change, pointer in (
            (moved, "/headers"),
            (moved | {"headers": {"Authorization": "***"}}, "/headers/Authorization"),
        ):
            refused = await api.http.patch(path, json=change)
            assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, pointer)
        assert read(await api.http.get(path), 200, Subscription).url == inbox.url
        assert (await api.http.patch(path, json={"url": f"{inbox.url}/path"})).status_code == 200
        changed = await api.http.patch(path, json=moved | {"headers": {"Authorization": "Bearer other"}})
        assert read(changed, 200, Subscription).headers == {"Authorization": "***"}
        assert (await api.http.patch(path, json={"url": inbox.url, "headers": None})).status_code == 200


async def test_events_and_models_of_a_subscription_can_be_changed(api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    async with api.subscribed(inbox.url, events=["job.failed"], models=["echo"]) as subscription:
        path = f"/v1/webhooks/{subscription.id}"
        await api.wait_for_webhooks((await api.run("echo", ECHO)).id)
        await api.http.patch(path, json={"events": ENDS})
        delivered = await api.run("echo", ECHO)
        await inbox.wait()
        await api.http.patch(path, json={"models": ["tokens"]})
        await api.wait_for_webhooks((await api.run("echo", ECHO)).id)
        await api.http.patch(path, json={"models": None})
        again = await api.run("echo", ECHO)
        events = [delivery.verify(subscription.secret or "").data.id for delivery in await inbox.wait(2)]
        assert events == [delivered.id, again.id]


async def test_subscriptions_are_listed_in_pages(api: Api, other_tenant: Api, receiver: Receiver) -> None:
    url = receiver.inbox(Reply(204)).url
    async with (
        other_tenant.subscribed(url) as first,
        other_tenant.subscribed(url) as second,
        other_tenant.subscribed(url) as third,
    ):
        found: list[str] = []
        cursor: dict[str, str] = {}
        for expected in (2, 1):
            response = await other_tenant.http.get("/v1/webhooks", params={"limit": 2, **cursor})
            page = read(response, 200, Subscriptions)
            assert len(page.items) == expected
            assert {item.secret for item in page.items} == {None}
            found += [item.id for item in page.items]
            cursor = {"cursor": page.next_cursor or ""}
        assert (found, page.next_cursor) == (sorted([first.id, second.id, third.id]), None)
        own = read(await api.http.get("/v1/webhooks"), 200, Subscriptions)
        assert not {first.id, second.id, third.id} & {item.id for item in own.items}
