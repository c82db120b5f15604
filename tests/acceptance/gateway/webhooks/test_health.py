"""The health of a subscription says what is pending, and how deliveries went."""

import pytest

from tests.support.api.api_client import Api, read
from tests.support.api.api_shapes import Health, Healths
from tests.support.receivers.webhook_receiver import Receiver

ECHO = {"x": [[1.0]]}
SUCCEEDED = ["job.succeeded"]
MAX_ATTEMPTS = 5  # see conftest.py


async def get_health(api: Api, webhook: str) -> Health:
    return read(await api.http.get(f"/v1/webhooks/{webhook}/health"), 200, Health)


async def test_a_new_subscription_has_no_numbers(api: Api, receiver: Receiver) -> None:
    async with api.subscribed(receiver.inbox().url, events=SUCCEEDED) as subscription:
        health = await get_health(api, subscription.id)
    assert (health.webhook_id, health.circuit, health.failing_since) == (subscription.id, "closed", None)
    assert (health.pending, health.oldest_due_at, health.counted_since) == (0, None, None)
    assert health.last_24_hours == health.last_60_minutes
    window = health.last_60_minutes
    assert (window.succeeded, window.failed, window.failed_attempts, window.success_rate) == (0, 0, 0, None)
    assert (window.duration_ms.p50, window.duration_ms.p95) == (None, None)


async def test_health_counts_what_succeeded_and_what_failed(api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox(500, 204, *[503] * MAX_ATTEMPTS)
    async with api.subscribed(inbox.url, events=SUCCEEDED) as subscription:
        for _ in range(2):
            await api.wait_for_webhooks((await api.run("echo", ECHO)).id)
        health = await get_health(api, subscription.id)
        window = health.last_60_minutes
        assert (window.succeeded, window.failed, window.failed_attempts) == (1, 1, 1 + MAX_ATTEMPTS)
        assert window.success_rate == pytest.approx(1 / 7, abs=0.0001)
        assert window.duration_ms.p50 == window.duration_ms.p95
        assert window.duration_ms.p50 is not None
        assert (health.circuit, health.failing_since is not None, health.pending) == ("closed", True, 0)


async def test_health_is_listed_in_pages_in_the_order_of_the_subscriptions(
    api: Api, other_tenant: Api, receiver: Receiver
) -> None:
    async with (
        api.subscribed(receiver.inbox().url) as first,
        api.subscribed(receiver.inbox().url) as second,
        other_tenant.subscribed(receiver.inbox().url) as foreign,
    ):
        found: list[str] = []
        query: dict[str, str | int] = {"limit": 1}
        while True:
            page = read(await api.http.get("/v1/webhooks/health", params=query), 200, Healths)
            assert len(page.items) == 1
            found += [each.webhook_id for each in page.items]
            if page.next_cursor is None:
                break
            query["cursor"] = page.next_cursor
        assert [each for each in found if each in (first.id, second.id, foreign.id)] == [first.id, second.id]
        assert (await other_tenant.http.get(f"/v1/webhooks/{first.id}/health")).status_code == 404
        assert await get_health(api, second.id) in (
            read(await api.http.get("/v1/webhooks/health", params={"limit": 100}), 200, Healths).items
        )


@pytest.mark.parametrize("limit", [0, 101])
async def test_a_page_of_health_has_a_limit(api: Api, limit: int) -> None:
    response = await api.http.get("/v1/webhooks/health", params={"limit": limit})
    assert (response.status_code, [error["pointer"] for error in response.json()["errors"]]) == (422, ["limit"])
