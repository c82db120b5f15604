"""A rotation replaces a secret. During the grace period, both secrets sign."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from tests.support.api.api_client import Api, read
from tests.support.api.api_shapes import Secret, Subscription
from tests.support.receivers.webhook_receiver import Delivery, Inbox, Receiver
from tests.support.waiting import eventually

ECHO = {"x": [[1.0]]}
ENDS = ["job.succeeded"]
GRACE = 3.0  # seconds
PRECISION = timedelta(milliseconds=2)  # times in the API are rounded to this
INTERVAL = 0.15  # seconds between two jobs


async def submit_jobs(api: Api, stop: asyncio.Event) -> None:
    """Submit one job after the other until `stop` is set."""
    while not stop.is_set():
        await api.submit("echo", ECHO)
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), INTERVAL)


async def find_send_times(api: Api, subscription: Subscription) -> dict[str, datetime] | None:
    """Return the start of each delivery's attempt by id, or None until all are recorded."""
    shown = await api.list_all_deliveries(f"/v1/webhooks/{subscription.id}")
    recorded = all(each.attempts for each in shown)
    return {each.id: each.attempts[0].started_at for each in shown} if recorded else None


async def test_both_secrets_verify_until_the_grace_period_ends_under_load(api: Api, receiver: Receiver) -> None:
    inbox, stop = receiver.inbox(), asyncio.Event()
    async with api.subscribed(inbox.url, events=ENDS) as subscription:
        load = asyncio.create_task(submit_jobs(api, stop))
        await inbox.wait(5)
        start = datetime.now(UTC)
        rotated = await rotate(api, subscription, grace_period=GRACE)
        rotated_at, until = datetime.now(UTC), rotated.old_secret_until or start
        assert start - PRECISION <= until - timedelta(seconds=GRACE) <= rotated_at + PRECISION

        async def is_over() -> bool:
            return inbox.deliveries[-1].at > until.timestamp() + 0.5

        await eventually(is_over, "the grace period is over and more was delivered")
        stop.set()
        await load
        sent = await eventually(partial(find_send_times, api, subscription), "every attempt is recorded")
    deliveries = [each for each in inbox.deliveries if each.id in sent]
    old, new = subscription.secret or "", rotated.secret or ""
    before = [each for each in deliveries if each.at < start.timestamp()]  # a claim that began then may end later
    in_grace = [each for each in deliveries if rotated_at <= sent[each.id] < until - PRECISION]
    after = [each for each in deliveries if sent[each.id] > until + PRECISION]
    assert min(len(before), len(in_grace) / 4, len(after)) >= 1
    assert all(each.is_signed_by(old) and not each.is_signed_by(new) for each in before)
    assert all(each.is_signed_by(old) and each.is_signed_by(new) for each in in_grace)
    assert all(each.is_signed_by(new) and not each.is_signed_by(old) for each in after)
    assert all(each.is_signed_by(old) for each in deliveries if sent[each.id] < until - PRECISION)


async def rotate(api: Api, subscription: Subscription, **body: object) -> Subscription:
    response = await api.http.post(f"/v1/webhooks/{subscription.id}/rotate", json=body)
    return read(response, 200, Subscription)


async def deliver(api: Api, inbox: Inbox) -> Delivery:
    """Submit a job and return its delivery."""
    count = len(inbox.deliveries)
    await api.submit("echo", ECHO)
    return (await inbox.wait(count + 1))[count]


async def test_old_secret_stops_at_once_without_a_grace_period(api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    async with api.subscribed(inbox.url, events=ENDS) as subscription:
        rotated = await rotate(api, subscription, grace_period=0)
        assert rotated.old_secret_until is None
        delivery = await deliver(api, inbox)
        assert [delivery.is_signed_by(each.secret or "") for each in (rotated, subscription)] == [True, False]


async def test_rotation_without_grace_period_stops_all_older_secrets(api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    async with api.subscribed(inbox.url, events=ENDS) as subscription:
        older = await rotate(api, subscription)
        rotated = await rotate(api, subscription, grace_period=0)
        delivery = await deliver(api, inbox)
    assert [delivery.is_signed_by(each.secret or "") for each in (subscription, older, rotated)] == [False, False, True]


async def test_ed25519_keys_can_be_rotated(api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    async with api.subscribed(inbox.url, events=ENDS, signing="ed25519") as subscription:
        assert (subscription.secret, subscription.public_key is None) == (None, False)
        first = await deliver(api, inbox)
        rotated = await rotate(api, subscription)
        assert rotated.secret is None
        assert rotated.public_key != subscription.public_key
        second = await deliver(api, inbox)
        shown = read(await api.http.get(f"/v1/webhooks/{subscription.id}"), 200, Subscription)
        assert shown.public_key == rotated.public_key
    keys = [subscription.public_key or "", rotated.public_key or ""]
    assert [[each.is_signed_by(key) for key in keys] for each in (first, second)] == [[True, False], [True, True]]
    signatures = second.request.headers["webhook-signature"].split()
    assert [signature.partition(",")[0] for signature in signatures] == ["v1a", "v1a"]


async def test_number_of_active_secrets_is_limited(api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    async with api.subscribed(inbox.url, events=ENDS) as subscription:
        rotated = [await rotate(api, subscription) for _ in range(4)]
        response = await api.http.post(f"/v1/webhooks/{subscription.id}/rotate")
        assert (response.status_code, response.json()["type"]) == (409, "urn:charonia:problem:limit_reached")
        delivery = await deliver(api, inbox)
        secrets = [subscription.secret, *(each.secret for each in rotated)]
        assert len(set(secrets)) == 5
        assert all(delivery.is_signed_by(secret or "") for secret in secrets)
        assert (await rotate(api, subscription, grace_period=0)).secret not in secrets


async def test_callback_secret_can_be_rotated(other_tenant: Api, receiver: Receiver) -> None:
    inbox, old = receiver.inbox(), await other_tenant.callback_secret()
    response = read(await other_tenant.http.post("/v1/webhook-secret/rotate", json={"grace_period": 60}), 200, Secret)
    assert await other_tenant.callback_secret() == response.secret != old
    await other_tenant.submit("echo", ECHO, webhook={"url": inbox.url})
    (delivery,) = await inbox.wait()
    assert delivery.is_signed_by(old)
    assert delivery.is_signed_by(response.secret)


@pytest.mark.parametrize("body", [{"grace_period": -1}, {"grace_period": 1e9}, {"grace": 5}, {"grace_period": "1"}])
async def test_invalid_grace_period_is_refused(api: Api, receiver: Receiver, body: dict[str, object]) -> None:
    async with api.subscribed(receiver.inbox().url) as subscription:
        response = await api.http.post(f"/v1/webhooks/{subscription.id}/rotate", json=body)
        assert (response.status_code, len(response.json()["errors"])) == (422, 1)
