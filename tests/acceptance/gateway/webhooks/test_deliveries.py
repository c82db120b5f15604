"""Deliveries are listed with every attempt, and can be sent again."""

from datetime import timedelta

import pytest

from tests.support.api.api_client import Api, read
from tests.support.api.api_shapes import SentBody, WebhookDelivery
from tests.support.receivers.threaded_server import Reply
from tests.support.receivers.webhook_receiver import Delivery, DeliveryExhausted, Receiver

ECHO = {"x": [[1.0]]}
SUCCEEDED = ["job.succeeded"]
STARTED_AND_SUCCEEDED = ["job.started", "job.succeeded"]
MAX_ATTEMPTS = 5  # see conftest.py
TIMEOUT = 15.0  # seconds of an attempt


async def test_delivery_lists_every_attempt(api: Api, receiver: Receiver) -> None:
    long = b"\xff" + b"sorry " * 4000
    inbox = receiver.inbox(Reply(500, {"x-reason": "none"}, long), Reply(200, {}, b"thanks"))
    async with api.subscribed(inbox.url, events=SUCCEEDED) as subscription:
        job = await api.submit("echo", ECHO)
        first, second = await inbox.wait(2)
        delivery = await api.wait_for_delivery(first.id)
        (listed,) = (await api.list_deliveries(f"/v1/webhooks/{subscription.id}")).items
        assert (await api.list_deliveries(f"/v1/jobs/{job.id}")).items == [listed]
    assert (delivery.id, delivery.job_id, delivery.webhook_id) == (first.id, job.id, subscription.id)
    assert (delivery.event_type, delivery.url, delivery.status) == ("job.succeeded", inbox.url, "succeeded")
    assert delivery.event_id.startswith("evt_")
    assert delivery.next_attempt_at is None
    assert delivery.results == [(500, "http_status"), (200, None)]
    first_attempt, second_attempt = delivery.attempts
    assert (first_attempt.number, second_attempt.number, second_attempt.response) == (1, 2, "thanks")
    assert first_attempt.response == ("\ufffd" + "sorry " * 4000)[: 16 * 1024]  # 16 KiB, as text
    for attempt, arrived in zip(delivery.attempts, (first, second), strict=True):
        assert -0.01 <= arrived.at - attempt.started_at.timestamp() < TIMEOUT
        assert 0 <= attempt.duration_ms < 10_000
    assert delivery.created_at <= first_attempt.started_at < second_attempt.started_at
    assert delivery.finished_at is not None
    assert delivery.finished_at - second_attempt.started_at >= timedelta(milliseconds=second_attempt.duration_ms - 1)
    assert len(listed.attempts[0].response) == 512
    assert (listed.id, listed.results) == (delivery.id, delivery.results)


async def test_deliveries_are_listed_newest_first_in_pages_and_filtered(
    api: Api, other_tenant: Api, receiver: Receiver
) -> None:
    inbox = receiver.inbox()
    async with api.subscribed(inbox.url, events=STARTED_AND_SUCCEEDED) as subscription:
        path = f"/v1/webhooks/{subscription.id}"
        jobs = [await api.run("echo", ECHO) for _ in range(3)]
        await inbox.wait(6)
        for job in jobs:
            await api.wait_for_webhooks(job.id)
        all_deliveries = await api.list_all_deliveries(path, 4)
        assert [each.id for each in all_deliveries] == sorted((each.id for each in inbox.deliveries), reverse=True)
        assert {each.status for each in all_deliveries} == {"succeeded"}

        async def find(path: str = path, **query: str | int) -> list[str]:
            return [each.id for each in (await api.list_deliveries(path, **query)).items]

        ends = [each.id for each in all_deliveries if each.event_type == "job.succeeded"]
        assert len(ends) == 3
        assert await find(event_type="job.succeeded") == await find(event_type="*.succeeded") == ends
        assert await find(event_type="job.*") == [each.id for each in all_deliveries]
        assert await find(event_type="job.failed") == await find(status="pending") == []
        assert await find(status="succeeded", limit=100) == [each.id for each in all_deliveries]
        middle = all_deliveries[2].created_at
        older = [each.id for each in all_deliveries if each.created_at < middle]
        assert await find(created_before=middle.isoformat()) == older
        newer = [each.id for each in all_deliveries if each.id not in older]
        assert await find(created_after=middle.isoformat()) == newer
        ages = {"created_after": "0001-01-01T00:00:00+14:00", "created_before": "9999-12-31T23:59:59-12:00"}
        assert await find(**ages) == [each.id for each in all_deliveries]
        assert await find(created_after="9999-12-31T23:59:59Z") == []

        own = f"/v1/jobs/{jobs[0].id}"
        assert await find(own) == [each.id for each in all_deliveries if each.job_id == jobs[0].id]
        assert await find(own, status="exhausted") == []
        assert len(await api.list_all_deliveries(own, 1)) == 2
        for hidden in (f"{path}/deliveries", f"{own}/deliveries", f"/v1/deliveries/{ends[0]}"):
            assert (await api.http.get(hidden)).status_code == 200
            assert (await other_tenant.http.get(hidden)).status_code == 404


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cursor", "dlv_1"),
        ("cursor", "job_01m7y0c6xcedwt2kxb3rmmva54"),
        ("status", "done"),
        ("limit", "0"),
        ("limit", "101"),
        ("event_type", "\x00"),
        ("event_type", "job.done"),
        ("created_after", "soon"),
    ],
)
async def test_invalid_parameter_is_named(api: Api, receiver: Receiver, name: str, value: str) -> None:
    async with api.subscribed(receiver.inbox().url) as subscription:
        response = await api.http.get(f"/v1/webhooks/{subscription.id}/deliveries", params={name: value})
    assert response.status_code == 422, response.text
    assert [error["pointer"] for error in response.json()["errors"]] == [name]


async def test_what_a_delivery_sent_is_shown_byte_for_byte(api: Api, other_tenant: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox(500, 204)
    job = await api.run("echo", ECHO, webhook={"url": inbox.url}, metadata={"name": "Zoë"})
    await api.wait_for_webhooks(job.id)
    sent = inbox.deliveries[-1]
    path = f"/v1/deliveries/{sent.id}/body"
    shown = read(await api.http.get(path), 200, SentBody)
    assert (shown.delivery_id, shown.body.encode()) == (sent.id, sent.request.body)
    assert (await other_tenant.http.get(path)).status_code == 404
    assert (await api.http.get("/v1/deliveries/dlv_01m7y0c6xcedwt2kxb3rmmva54/body")).status_code == 404


async def redeliver(api: Api, delivery: str) -> WebhookDelivery:
    return read(await api.http.post(f"/v1/deliveries/{delivery}/redeliver"), 202, WebhookDelivery)


def check_same(first: Delivery, *others: Delivery) -> None:
    for other in others:
        assert (other.id, other.request.body) == (first.id, first.request.body)


async def test_succeeded_delivery_can_be_sent_again(api: Api, other_tenant: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox(204, 500)  # the second delivery fails first, and is retried on schedule
    job = await api.run("echo", ECHO, webhook={"url": inbox.url})
    await api.wait_for_webhooks(job.id)
    (first,) = inbox.deliveries
    assert (await other_tenant.http.post(f"/v1/deliveries/{first.id}/redeliver")).status_code == 404
    again = await redeliver(api, first.id)
    assert (again.id, again.status, again.finished_at) == (first.id, "pending", None)
    assert again.next_attempt_at is not None
    check_same(*await inbox.wait(3))
    delivery = await api.wait_for_delivery(first.id)
    assert delivery.results == [(204, None), (500, "http_status"), (204, None)]
    assert [attempt.number for attempt in delivery.attempts] == [1, 2, 3]
    secret = await api.callback_secret()
    assert all(each.is_signed_by(secret) for each in inbox.deliveries)


async def test_exhausted_delivery_is_reported_and_can_be_sent_again(api: Api, receiver: Receiver) -> None:
    inbox, notices = receiver.inbox(*[503] * MAX_ATTEMPTS), receiver.inbox()
    async with (
        api.subscribed(inbox.url, events=SUCCEEDED) as failing,
        api.subscribed(notices.url, events=["delivery.exhausted"]) as watcher,
    ):
        job = await api.submit("echo", ECHO)
        (notice,) = await notices.wait()
        event = notice.read(watcher.secret or "", DeliveryExhausted)
        given_up = await api.wait_for_delivery(inbox.deliveries[0].id)
        assert (event.type, event.data) == ("delivery.exhausted", given_up)
        assert (given_up.status, given_up.results) == ("exhausted", [(503, "http_status")] * MAX_ATTEMPTS)
        assert (given_up.job_id, given_up.webhook_id) == (job.id, failing.id)
        assert (await api.get(job.id)).webhook_status == "failed"
        (found,) = (await api.list_deliveries(f"/v1/webhooks/{failing.id}", status="exhausted")).items
        assert found.id == given_up.id

        await redeliver(api, given_up.id)
        check_same(*await inbox.wait(MAX_ATTEMPTS + 1))
        assert (await api.wait_for_webhooks(job.id)).webhook_status == "succeeded"
        assert len(notices.deliveries) == 1


@pytest.mark.parametrize("path", ["dlv_01m7y0c6xcedwt2kxb3rmmva54", "dlv_1", "job_01m7y0c6xcedwt2kxb3rmmva54"])
async def test_unknown_delivery_is_404(api: Api, path: str) -> None:
    for response in (
        await api.http.get(f"/v1/deliveries/{path}"),
        await api.http.post(f"/v1/deliveries/{path}/redeliver"),
    ):
        assert (response.status_code, response.json()["detail"].startswith("delivery not found")) == (404, True)
