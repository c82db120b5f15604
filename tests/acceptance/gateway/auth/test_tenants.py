"""Keys identify tenants, and tenants cannot see each other's data."""

from collections.abc import Mapping

import httpx
import pytest

from deploy.local.stack import Stack
from tests.support.api.api_client import Api
from tests.support.receivers.webhook_receiver import Receiver

NOT_FOUND = " not found; it never existed, was deleted, or belongs to another tenant"
ECHO = {"x": [[1.0]]}


def make_problem(status: int, title: str, code: str, detail: str, instance: str) -> dict[str, object]:
    kind = f"urn:charonia:problem:{code}"
    return {"type": kind, "title": title, "status": status, "detail": detail, "instance": instance}


@pytest.mark.parametrize(
    ("headers", "detail"),
    [
        ({}, "the API key is missing; send it as 'Authorization: Bearer <key>'"),
        (
            {"Authorization": "Basic Y2hfZGV2"},
            "the Authorization header has another scheme than Bearer; send it as 'Authorization: Bearer <key>'",
        ),
        (
            {"Authorization": "Bearer ch_wrong"},
            "this API key is unknown or was revoked; check it, or ask your operator for another one",
        ),
    ],
    ids=["none", "not bearer", "wrong"],
)
async def test_calls_without_a_valid_key_are_refused(stack: Stack, headers: Mapping[str, str], detail: str) -> None:
    async with httpx.AsyncClient(base_url=stack.url, headers=headers, timeout=30) as http:
        response = await http.post("/v1/jobs", json={"model": "echo", "inputs": ECHO})
    assert response.json() == make_problem(401, "Unauthorized", "unauthorized", detail, "/v1/jobs")
    assert response.status_code == 401
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["www-authenticate"] == "Bearer"


async def test_job_of_another_tenant_is_not_found(api: Api, other_tenant: Api) -> None:
    job = await api.run("echo", ECHO)
    path = f"/v1/jobs/{job.id}"
    response = await other_tenant.http.get(path)
    assert response.json() == make_problem(404, "Not Found", "not_found", f"job{NOT_FOUND}", path)
    assert response.status_code == 404
    assert response.headers["content-type"] == "application/problem+json"


async def test_subscription_of_another_tenant_is_not_found(api: Api, other_tenant: Api, receiver: Receiver) -> None:
    async with api.subscribed(receiver.inbox().url) as subscription:
        path = f"/v1/webhooks/{subscription.id}"
        for response in (await other_tenant.http.get(path), await other_tenant.http.delete(path)):
            assert response.json() == make_problem(404, "Not Found", "not_found", f"webhook{NOT_FOUND}", path)
            assert response.status_code == 404
        assert (await api.http.get(path)).status_code == 200


async def test_tenant_gets_webhooks_only_for_its_own_jobs(api: Api, other_tenant: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    async with other_tenant.subscribed(inbox.url, events=["job.succeeded"]) as subscription:
        await api.run("echo", ECHO)
        own = await other_tenant.run("echo", ECHO)
        (delivery,) = await inbox.wait()
        assert delivery.verify(subscription.secret or "").data.id == own.id
    assert await other_tenant.callback_secret() != await api.callback_secret()
