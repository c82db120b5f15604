"""A tenant makes, lists and revokes its own keys."""

from typing import Any

import httpx
import pytest

from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api.api_client import Api
from tests.support.api.model_inputs import work
from tests.support.stacks.key_command import make_key
from tests.support.stacks.own_gateway import LONG_KEY_CACHE, another_gateway
from tests.support.waiting import eventually

READER = {"name": "reader", "scopes": ["read"]}
NO_KEY = f"key_{'0' * 26}"


async def create(api: Api, **body: object) -> dict[str, Any]:
    response = await api.http.post("/v1/keys", json=body)
    assert response.status_code == 201, response.text
    made: dict[str, Any] = response.json()
    assert response.headers["Location"] == f"/v1/keys/{made['id']}"
    return made


def refusal(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["type"].removeprefix("urn:charonia:problem:")


async def test_a_key_works_until_it_is_revoked_at_every_gateway(stack: Stack) -> None:
    """The gateway that does not revoke it would remember it for long without a message."""
    async with (
        another_gateway(stack, **LONG_KEY_CACHE) as other,
        open_client(stack, await make_key(stack, "own-keys")) as admin,
    ):
        made = await create(admin, **READER)
        assert (made["name"], made["scopes"], made["models"], made["expires_at"]) == ("reader", ["read"], None, None)
        assert made["last_used_at"] is None
        async with (
            open_client(stack, made["key"]) as one,
            open_client(stack, made["key"], other.url) as two,
        ):
            for api in (one, two):
                assert (await api.http.get("/v1/models")).status_code == 200
                assert (await api.http.get("/v1/keys")).status_code == 403
            listed = (await admin.http.get("/v1/keys")).json()
            assert [each["name"] for each in listed["items"]] == ["", "reader"]
            (_, shown) = listed["items"]
            assert shown.pop("last_used_at") >= made["created_at"]
            assert shown.items() <= made.items()
            assert "key" not in shown
            assert (await admin.http.delete(f"/v1/keys/{made['id']}")).status_code == 204
            assert (await one.http.get("/v1/models")).status_code == 401

            async def refused() -> bool:
                return (await two.http.get("/v1/models")).status_code == 401

            await eventually(refused, "the other gateway has the message")
        for method in ("GET", "DELETE"):
            assert (await admin.http.request(method, f"/v1/keys/{made['id']}")).status_code == 404
        assert len((await admin.http.get("/v1/keys")).json()["items"]) == 1
        log = (await admin.http.get("/v1/audit-log")).json()["items"]
        own = listed["items"][0]["id"]
        assert [(each["action"], each["actor"]) for each in log[:2]] == [("key.revoked", own), ("key.created", own)]
        assert log[1]["changes"] == {"name": "reader", "scopes": ["read"]}
        assert made["key"] not in str(log)


async def test_a_key_that_a_key_made_goes_with_it_and_cannot_revoke_it(stack: Stack) -> None:
    async with open_client(stack, await make_key(stack, "family-keys")) as operator:
        parent = await create(operator, name="parent", scopes=["admin"])
        async with open_client(stack, parent["key"]) as middle:
            child = await create(middle, name="child", scopes=["admin"])
            assert child["made_by"] == parent["id"]
            async with open_client(stack, child["key"]) as youngest:
                refused = await youngest.http.delete(f"/v1/keys/{parent['id']}")
                assert refusal(refused) == (409, "conflict")
                assert "cannot revoke the key that made it" in refused.json()["detail"]
                assert (await operator.http.delete(f"/v1/keys/{parent['id']}")).status_code == 204
                for client in (middle, youngest):
                    assert (await client.http.get("/v1/keys")).status_code == 401
        log = (await operator.http.get("/v1/audit-log?action=key.revoked")).json()["items"]
        assert {each["target"] for each in log} == {parent["id"], child["id"]}


async def test_a_key_gives_no_more_than_it_has(stack: Stack) -> None:
    limits = ("--model", "ocr*", "echo", "--rate-limit", "50", "--expires-at", "2040-01-01T00:00:00Z")
    async with open_client(stack, await make_key(stack, "limited-keys", *limits)) as admin:
        for more in (
            {"models": ["*"]},
            {"models": ["echo", "work"]},
            {"rate_limit": 51},
            {"rate_limit": 0},
            {"expires_at": "2040-01-01T00:00:01Z"},
        ):
            assert refusal(await admin.http.post("/v1/keys", json=READER | more)) == (403, "forbidden"), more
        same = await create(admin, name="same", scopes=["submit", "read", "admin"])
        assert (same["models"], same["rate_limit"]) == (["ocr*", "echo"], 50)
        assert same["expires_at"] == "2040-01-01T00:00:00.000Z"
        less = await create(admin, **READER, models=["ocr-2"], rate_limit=5, expires_at="2039-01-01T00:00:00Z")
        assert (less["models"], less["rate_limit"], less["expires_at"]) == (["ocr-2"], 5, "2039-01-01T00:00:00.000Z")
        async with open_client(stack, same["key"]) as child:
            assert refusal(await child.http.post("/v1/jobs", json={"model": "work", "inputs": work(1)})) == (
                403,
                "forbidden",
            )


async def test_a_tenant_sees_and_revokes_only_its_own_keys(stack: Stack) -> None:
    own, other = await make_key(stack, "own-a"), await make_key(stack, "own-b")
    async with open_client(stack, own) as api, open_client(stack, other) as stranger:
        made = await create(api, **READER)
        for method in ("GET", "DELETE"):
            assert refusal(await stranger.http.request(method, f"/v1/keys/{made['id']}")) == (404, "not_found")
        assert len((await stranger.http.get("/v1/keys")).json()["items"]) == 1
        (first, second) = (await api.http.get("/v1/keys")).json()["items"]
        page = (await api.http.get("/v1/keys", params={"limit": 1})).json()
        assert (page["items"], page["next_cursor"]) == ([first], first["id"])
        assert (await api.http.get("/v1/keys", params={"cursor": first["id"]})).json() == {
            "items": [second],
            "next_cursor": None,
        }
        assert refusal(await api.http.delete(f"/v1/keys/{first['id']}")) == (409, "conflict")
        assert (await api.http.get(f"/v1/keys/{first['id']}")).json()["id"] == first["id"]


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"scopes": []}, "/scopes"),
        ({"scopes": ["write"]}, "/scopes/0"),
        ({"name": ""}, "/name"),
        ({"name": "a\x00b"}, "/name"),
        ({"models": []}, "/models"),
        ({"rate_limit": 10_001}, "/rate_limit"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "/expires_at"),
        ({"expires_at": "2030-01-01"}, "/expires_at"),
        ({"secret": "x"}, "/secret"),
    ],
)
async def test_mistakes_are_named(api: Api, change: dict[str, object], pointer: str) -> None:
    response = await api.http.post("/v1/keys", json=READER | change)
    assert (response.status_code, response.json()["errors"][0]["pointer"]) == (422, pointer)
    assert (await api.http.get(f"/v1/keys/{NO_KEY}")).status_code == 404
