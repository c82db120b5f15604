"""What was sent, with every attempt, for whoever asks; and once more, where somebody wants it."""

from datetime import timedelta

import pytest

from tests.acceptance.client import Api, read
from tests.acceptance.listening import Reply
from tests.acceptance.receiver import Delivery, GivenUp, Receiver
from tests.acceptance.shapes import WebhookDelivery

ECHO = {"x": [[1.0]]}
ENDS = ["job.succeeded"]
BOTH = ["job.started", "job.succeeded"]
TRIES = 5  # as conftest.py has it


async def test_a_delivery_tells_of_every_attempt(api: Api, receiver: Receiver) -> None:
    long = b"\xff" + b"sorry " * 4000
    inbox = receiver.inbox(Reply(500, {"x-reason": "none"}, long), Reply(200, {}, b"thanks"))
    async with api.subscribed(inbox.url, events=ENDS) as subscription:
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
    one, two = delivery.attempts
    assert (one.number, two.number, two.response) == (1, 2, "thanks")
    assert one.response == ("\ufffd" + "sorry " * 4000)[: 16 * 1024]  # 16 KiB, as text
    for attempt, arrived in zip(delivery.attempts, (first, second), strict=True):
        assert abs(attempt.started_at.timestamp() - arrived.at) < 2
        assert 0 <= attempt.latency_ms < 10_000
    assert delivery.created_at <= one.started_at < two.started_at
    assert delivery.finished_at is not None
    assert delivery.finished_at - two.started_at >= timedelta(milliseconds=two.latency_ms - 1)
    assert len(listed.attempts[0].response) == 512
    assert (listed.id, listed.results) == (delivery.id, delivery.results)


async def test_deliveries_are_listed_newest_first_in_pages_and_filtered(
    api: Api, stranger: Api, receiver: Receiver
) -> None:
    inbox = receiver.inbox()
    async with api.subscribed(inbox.url, events=BOTH) as subscription:
        path = f"/v1/webhooks/{subscription.id}"
        jobs = [await api.run("echo", ECHO) for _ in range(3)]
        await inbox.wait(6)
        for job in jobs:
            await api.wait_for_webhooks(job.id)
        every = await api.list_all_deliveries(path, 4)
        assert [each.id for each in every] == sorted((each.id for each in inbox.deliveries), reverse=True)
        assert {each.status for each in every} == {"succeeded"}

        async def find(path: str = path, **query: str | int) -> list[str]:
            return [each.id for each in (await api.list_deliveries(path, **query)).items]

        ends = [each.id for each in every if each.event_type == "job.succeeded"]
        assert len(ends) == 3
        assert await find(event_type="job.succeeded") == ends
        assert await find(event_type="job.failed") == await find(status="pending") == []
        assert await find(status="succeeded", limit=100) == [each.id for each in every]
        middle = every[2].created_at
        older = [each.id for each in every if each.created_at < middle]
        assert await find(created_before=middle.isoformat()) == older
        assert await find(created_after=middle.isoformat()) == [each.id for each in every if each.id not in older]
        ages = {"created_after": "0001-01-01T00:00:00+14:00", "created_before": "9999-12-31T23:59:59-12:00"}
        assert await find(**ages) == [each.id for each in every]
        assert await find(created_after="9999-12-31T23:59:59Z") == []

        own = f"/v1/jobs/{jobs[0].id}"
        assert await find(own) == [each.id for each in every if each.job_id == jobs[0].id]
        assert await find(own, status="exhausted") == []
        assert len(await api.list_all_deliveries(own, 1)) == 2
        for hidden in (f"{path}/deliveries", f"{own}/deliveries", f"/v1/deliveries/{ends[0]}"):
            assert (await api.http.get(hidden)).status_code == 200
            assert (await stranger.http.get(hidden)).status_code == 404


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cursor", "dlv_1"),
        ("cursor", "job_01m7y0c6xcedwt2kxb3rmmva54"),
        ("status", "done"),
        ("limit", "0"),
        ("limit", "101"),
        ("event_type", "\x00"),
        ("created_after", "soon"),
    ],
)
async def test_a_wrong_parameter_is_named(api: Api, receiver: Receiver, name: str, value: str) -> None:
    async with api.subscribed(receiver.inbox().url) as subscription:
        answer = await api.http.get(f"/v1/webhooks/{subscription.id}/deliveries", params={name: value})
    assert answer.status_code == 422, answer.text
    assert [error["pointer"] for error in answer.json()["errors"]] == [name]


async def redeliver(api: Api, delivery: str) -> WebhookDelivery:
    return read(await api.http.post(f"/v1/deliveries/{delivery}/redeliver"), 202, WebhookDelivery)


def assert_same(first: Delivery, *others: Delivery) -> None:
    for other in others:
        assert (other.id, other.request.body) == (first.id, first.request.body)


async def test_what_was_delivered_can_be_sent_once_more(api: Api, stranger: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox(204, 500)  # the second time it fails, and is tried again by the schedule
    job = await api.run("echo", ECHO, webhook={"url": inbox.url})
    await api.wait_for_webhooks(job.id)
    (first,) = inbox.deliveries
    assert (await stranger.http.post(f"/v1/deliveries/{first.id}/redeliver")).status_code == 404
    again = await redeliver(api, first.id)
    assert (again.id, again.status, again.finished_at) == (first.id, "pending", None)
    assert again.next_attempt_at is not None
    assert_same(*await inbox.wait(3))
    delivery = await api.wait_for_delivery(first.id)
    assert delivery.results == [(204, None), (500, "http_status"), (204, None)]
    assert [attempt.number for attempt in delivery.attempts] == [1, 2, 3]
    secret = await api.callback_secret()
    assert all(each.is_by(secret) for each in inbox.deliveries)


async def test_what_was_given_up_is_told_of_and_can_be_sent_once_more(api: Api, receiver: Receiver) -> None:
    inbox, told = receiver.inbox(*[503] * TRIES), receiver.inbox()
    async with (
        api.subscribed(inbox.url, events=ENDS) as failing,
        api.subscribed(told.url, events=["delivery.exhausted"]) as watcher,
    ):
        job = await api.submit("echo", ECHO)
        (notice,) = await told.wait()
        event = notice.read(watcher.secret or "", GivenUp)
        given_up = await api.wait_for_delivery(inbox.deliveries[0].id)
        assert (event.type, event.data) == ("delivery.exhausted", given_up)
        assert (given_up.status, given_up.results) == ("exhausted", [(503, "http_status")] * TRIES)
        assert (given_up.job_id, given_up.webhook_id) == (job.id, failing.id)
        assert (await api.get(job.id)).webhook_status == "failed"
        (found,) = (await api.list_deliveries(f"/v1/webhooks/{failing.id}", status="exhausted")).items
        assert found.id == given_up.id

        await redeliver(api, given_up.id)
        assert_same(*await inbox.wait(TRIES + 1))
        assert (await api.wait_for_webhooks(job.id)).webhook_status == "succeeded"
        assert len(told.deliveries) == 1


@pytest.mark.parametrize("path", ["dlv_01m7y0c6xcedwt2kxb3rmmva54", "dlv_1", "job_01m7y0c6xcedwt2kxb3rmmva54"])
async def test_what_is_not_there_is_404(api: Api, path: str) -> None:
    for answer in (
        await api.http.get(f"/v1/deliveries/{path}"),
        await api.http.post(f"/v1/deliveries/{path}/redeliver"),
    ):
        assert (answer.status_code, answer.json()["detail"]) == (404, "there is no such delivery")
