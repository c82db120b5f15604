"""Who may do what: keys, and the walls between tenants."""

from collections.abc import Mapping

import httpx
import pytest

from deploy.local.stack import Stack
from tests.acceptance.client import Api
from tests.acceptance.receiver import Receiver

ECHO = {"x": [[1.0]]}


def problem(status: int, title: str, code: str, detail: str, instance: str) -> dict[str, object]:
    kind = f"urn:charonia:problem:{code}"
    return {"type": kind, "title": title, "status": status, "detail": detail, "instance": instance}


@pytest.mark.parametrize(
    ("headers", "detail"),
    [
        ({}, "send your API key as 'Authorization: Bearer <key>'"),
        ({"Authorization": "Basic Y2hfZGV2"}, "send your API key as 'Authorization: Bearer <key>'"),
        ({"Authorization": "Bearer ch_wrong"}, "this API key is not known, or it was revoked"),
    ],
    ids=["none", "not bearer", "wrong"],
)
async def test_nothing_goes_without_a_key(stack: Stack, headers: Mapping[str, str], detail: str) -> None:
    async with httpx.AsyncClient(base_url=stack.url, headers=headers) as http:
        answer = await http.post("/v1/jobs", json={"model": "echo", "inputs": ECHO})
    assert answer.json() == problem(401, "Unauthorized", "unauthorized", detail, "/v1/jobs")
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_another_tenants_job_is_not_there(api: Api, stranger: Api) -> None:
    job = await api.run("echo", ECHO)
    path = f"/v1/jobs/{job.id}"
    answer = await stranger.http.get(path)
    assert answer.json() == problem(404, "Not Found", "not_found", "there is no such job", path)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


async def test_another_tenants_subscription_is_not_there(api: Api, stranger: Api, receiver: Receiver) -> None:
    async with api.subscribed(receiver.inbox().url) as subscription:
        path = f"/v1/webhooks/{subscription.id}"
        for answer in (await stranger.http.get(path), await stranger.http.delete(path)):
            assert answer.json() == problem(404, "Not Found", "not_found", "there is no such webhook", path)
            assert answer.status_code == 404
        assert (await api.http.get(path)).status_code == 200


async def test_a_tenant_hears_only_of_its_own_jobs(api: Api, stranger: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    async with stranger.subscribed(inbox.url, events=["job.succeeded"]) as subscription:
        await api.run("echo", ECHO)
        own = await stranger.run("echo", ECHO)
        (delivery,) = await inbox.wait()
        assert delivery.verify(subscription.secret or "").data.id == own.id
    assert await stranger.callback_secret() != await api.callback_secret()
