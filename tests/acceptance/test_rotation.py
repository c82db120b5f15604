"""A new secret for an old one: while receivers change over, both sign."""

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from tests.acceptance.client import Api, read
from tests.acceptance.receiver import Delivery, Inbox, Receiver
from tests.acceptance.shapes import Secret, Subscription
from tests.acceptance.waiting import eventually

ECHO = {"x": [[1.0]]}
ENDS = ["job.succeeded"]
GRACE = 2.0  # seconds
SHOWN = timedelta(milliseconds=2)  # how exactly times are shown
LOAD = 4  # jobs at a time


async def run_until(api: Api, done: asyncio.Event) -> None:
    """One job after the other."""
    while not done.is_set():
        await api.run("echo", ECHO)


async def find_times(api: Api, made: Subscription) -> dict[str, datetime] | None:
    """When each delivery to a subscription was claimed to be sent, by its id; None before all were recorded."""
    shown = await api.list_all_deliveries(f"/v1/webhooks/{made.id}")
    recorded = all(each.attempts for each in shown)
    return {each.id: each.attempts[0].started_at for each in shown} if recorded else None


async def test_under_load_both_secrets_verify_until_the_grace_period_ends(api: Api, receiver: Receiver) -> None:
    inbox, done = receiver.inbox(), asyncio.Event()
    async with api.subscribed(inbox.url, events=ENDS) as made:
        load = asyncio.gather(*(run_until(api, done) for _ in range(LOAD)))
        await inbox.wait(5)
        start = datetime.now(UTC)
        rotated = await rotate(api, made, grace_period=GRACE)
        at, until = datetime.now(UTC), rotated.old_secret_until or start
        assert start - SHOWN <= until - timedelta(seconds=GRACE) <= at + SHOWN

        async def ended() -> bool:
            return inbox.deliveries[-1].at > until.timestamp() + 0.5

        await eventually(ended, "the grace period is over, and more was delivered")
        done.set()
        await load
        sent = await eventually(partial(find_times, api, made), "every attempt is recorded")
    deliveries = [each for each in inbox.deliveries if each.id in sent]
    old, new = made.secret or "", rotated.secret or ""
    before = [each for each in deliveries if sent[each.id] < start - SHOWN]
    in_grace = [each for each in inbox.deliveries if at <= sent[each.id] < until - SHOWN]
    after = [each for each in deliveries if sent[each.id] > until + SHOWN]
    assert min(len(before), len(in_grace) / 4, len(after)) >= 1
    assert all(each.is_by(old) and not each.is_by(new) for each in before)
    assert all(each.is_by(old) and each.is_by(new) for each in in_grace)
    assert all(each.is_by(new) and not each.is_by(old) for each in after)
    assert all(each.is_by(old) for each in deliveries if sent[each.id] < until - SHOWN)  # the rotation itself


async def rotate(api: Api, made: Subscription, **body: object) -> Subscription:
    answer = await api.http.post(f"/v1/webhooks/{made.id}/rotate", json=body)
    return read(answer, 200, Subscription)


async def deliver(api: Api, inbox: Inbox) -> Delivery:
    """What the end of another job brings."""
    count = len(inbox.deliveries)
    await api.submit("echo", ECHO)
    return (await inbox.wait(count + 1))[count]


async def test_without_a_grace_period_the_old_secret_ends_at_once(api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    async with api.subscribed(inbox.url, events=ENDS) as made:
        rotated = await rotate(api, made, grace_period=0)
        assert rotated.old_secret_until is None
        delivery = await deliver(api, inbox)
        assert (delivery.is_by(rotated.secret or ""), delivery.is_by(made.secret or "")) == (True, False)


async def test_what_ends_the_old_secret_ends_those_before_it(api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    async with api.subscribed(inbox.url, events=ENDS) as made:
        older = await rotate(api, made)
        rotated = await rotate(api, made, grace_period=0)
        delivery = await deliver(api, inbox)
    assert [delivery.is_by(each.secret or "") for each in (made, older, rotated)] == [False, False, True]


async def test_ed25519_keys_are_rotated_too(api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    async with api.subscribed(inbox.url, events=ENDS, signing="ed25519") as made:
        assert made.secret == made.public_key
        first = await deliver(api, inbox)
        rotated = await rotate(api, made)
        assert rotated.secret == rotated.public_key != made.public_key
        second = await deliver(api, inbox)
        shown = read(await api.http.get(f"/v1/webhooks/{made.id}"), 200, Subscription)
        assert shown.public_key == rotated.public_key
    keys = [made.public_key or "", rotated.public_key or ""]
    assert [[each.is_by(key) for key in keys] for each in (first, second)] == [[True, False], [True, True]]
    signatures = second.request.headers["webhook-signature"].split()
    assert [signature.partition(",")[0] for signature in signatures] == ["v1a", "v1a"]


async def test_only_so_many_secrets_sign_at_a_time(api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    async with api.subscribed(inbox.url, events=ENDS) as made:
        rotated = [await rotate(api, made) for _ in range(4)]
        answer = await api.http.post(f"/v1/webhooks/{made.id}/rotate")
        assert (answer.status_code, answer.json()["type"]) == (409, "urn:charonia:problem:conflict")
        delivery = await deliver(api, inbox)
        secrets = [made.secret, *(each.secret for each in rotated)]
        assert len(set(secrets)) == 5
        assert all(delivery.is_by(secret or "") for secret in secrets)
        assert (await rotate(api, made, grace_period=0)).secret not in secrets


async def test_the_secret_of_callbacks_is_rotated_as_well(stranger: Api, receiver: Receiver) -> None:
    inbox, old = receiver.inbox(), await stranger.callback_secret()
    answer = read(await stranger.http.post("/v1/webhook-secret/rotate", json={"grace_period": 60}), 200, Secret)
    assert await stranger.callback_secret() == answer.secret != old
    await stranger.submit("echo", ECHO, webhook={"url": inbox.url})
    (delivery,) = await inbox.wait()
    assert delivery.is_by(old)
    assert delivery.is_by(answer.secret)


@pytest.mark.parametrize("body", [{"grace_period": -1}, {"grace_period": 1e9}, {"grace": 5}, {"grace_period": "1"}])
async def test_a_grace_period_is_within_bounds(api: Api, receiver: Receiver, body: dict[str, object]) -> None:
    async with api.subscribed(receiver.inbox().url) as made:
        answer = await api.http.post(f"/v1/webhooks/{made.id}/rotate", json=body)
        assert (answer.status_code, len(answer.json()["errors"])) == (422, 1)
