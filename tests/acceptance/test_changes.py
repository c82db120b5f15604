"""A subscription that is changed: each field, and what follows."""

import msgspec
import pytest

from tests.acceptance.client import Api, read
from tests.acceptance.listening import Reply
from tests.acceptance.receiver import Receiver
from tests.acceptance.shapes import Subscription, Subscriptions

ECHO = {"x": [[1.0]]}
ENDS = ["job.succeeded"]
HIDDEN = {"authorization": "***"}


async def test_each_field_can_be_changed_and_what_is_left_out_stays(api: Api, receiver: Receiver) -> None:
    before = {"models": ["echo"], "description": "first", "headers": {"Authorization": "Bearer a"}, "rate_limit": 50}
    after = {"url": receiver.inbox().url, "events": ["*.failed"], "models": ["ocr", "echo"], "description": "second"}
    async with api.subscribed(receiver.inbox().url, events=ENDS, **before) as made:
        path, expected = f"/v1/webhooks/{made.id}", msgspec.structs.replace(made, secret=None)
        assert read(await api.http.get(path), 200, Subscription) == expected
        for name, value in {**after, "rate_limit": 7}.items():
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
        ({"rate_limit": 0}, "/rate_limit"),
        ({"headers": {"webhook-id": "mine"}}, "/headers/webhook-id"),
        ({"description": "\x00"}, "/description"),
    ],
)
async def test_what_can_not_be_is_refused_and_changes_nothing(
    api: Api, receiver: Receiver, change: dict[str, object], pointer: str
) -> None:
    async with api.subscribed(receiver.inbox().url, events=ENDS) as made:
        path = f"/v1/webhooks/{made.id}"
        answer = await api.http.patch(path, json={"description": "changed", **change})
        assert answer.status_code == 422, answer.text
        assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
        assert read(await api.http.get(path), 200, Subscription) == msgspec.structs.replace(made, secret=None)


async def test_what_is_pending_goes_to_the_new_url(api: Api, receiver: Receiver) -> None:
    old, new = receiver.inbox(*[500] * 9), receiver.inbox()
    async with api.subscribed(old.url, events=ENDS) as subscription:
        job = await api.submit("echo", ECHO)
        first, *_ = await old.wait()
        await api.http.patch(f"/v1/webhooks/{subscription.id}", json={"url": new.url, "headers": {"X-New": "yes"}})
        (later,) = await new.wait()
        assert (later.id, later.request.body) == (first.id, first.request.body)
        assert later.verify(subscription.secret or "").data.id == job.id
        assert (later.request.headers["x-new"], "x-new" in first.request.headers) == ("yes", False)
        assert (await api.wait_for_delivery(first.id)).url == new.url


async def test_what_is_chosen_can_be_changed(api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    async with api.subscribed(inbox.url, events=["job.failed"], models=["echo"]) as subscription:
        path = f"/v1/webhooks/{subscription.id}"
        await api.wait_for_webhooks((await api.run("echo", ECHO)).id)
        await api.http.patch(path, json={"events": ENDS})
        heard = await api.run("echo", ECHO)
        await inbox.wait()
        await api.http.patch(path, json={"models": ["tokens"]})
        await api.wait_for_webhooks((await api.run("echo", ECHO)).id)
        await api.http.patch(path, json={"models": None})
        again = await api.run("echo", ECHO)
        events = [delivery.verify(subscription.secret or "").data.id for delivery in await inbox.wait(2)]
        assert events == [heard.id, again.id]


async def test_subscriptions_are_listed_in_pages(api: Api, stranger: Api, receiver: Receiver) -> None:
    url = receiver.inbox(Reply(204)).url
    async with stranger.subscribed(url) as first, stranger.subscribed(url) as second, stranger.subscribed(url) as third:
        found: list[str] = []
        cursor: dict[str, str] = {}
        for expected in (2, 1):
            answer = await stranger.http.get("/v1/webhooks", params={"limit": 2, **cursor})
            page = read(answer, 200, Subscriptions)
            assert len(page.items) == expected
            assert {item.secret for item in page.items} == {None}
            found += [item.id for item in page.items]
            cursor = {"cursor": page.next_cursor or ""}
        assert (found, page.next_cursor) == (sorted([first.id, second.id, third.id]), None)
        own = read(await api.http.get("/v1/webhooks"), 200, Subscriptions)
        assert not {first.id, second.id, third.id} & {item.id for item in own.items}
