"""A tenant and its operators read who changed what."""

import json
from typing import Any

import pytest

from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api.api_client import Api
from tests.support.receivers.webhook_receiver import Receiver
from tests.support.stacks.key_command import make_key, revoke_key, run_command, run_keys_here
from tests.support.waiting import eventually

HEADER, QUERY = "hidden-header", "token=hidden-query"


async def read_log(api: Api, **query: object) -> dict[str, Any]:
    response = await api.http.get("/v1/audit-log", params=query)  # type: ignore[arg-type]
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


async def list_actions(api: Api, **query: object) -> list[str]:
    return [item["action"] for item in (await read_log(api, **query))["items"]]


async def call(api: Api, method: str, path: str, body: object = None) -> dict[str, Any]:
    response = await api.http.request(method, path, json=body)
    assert response.is_success, response.text
    return response.json() if response.content else {}


async def test_a_tenant_reads_its_changes_and_no_other_does(stack: Stack, receiver: Receiver) -> None:
    inbox = receiver.inbox(410)
    async with open_client(stack, await make_key(stack, "audited", "--name", "ci")) as api:
        data = {"url": f"{inbox.url}?{QUERY}", "events": ["job.*"], "headers": {"x-token": HEADER}}
        webhook = await call(api, "POST", "/v1/webhooks", data)
        path = f"/v1/webhooks/{webhook['id']}"
        change = {"url": inbox.url, "events": ["job.succeeded"]}
        await call(api, "PATCH", path, change)
        rotated = await call(api, "POST", f"{path}/rotate")
        await api.run("echo", {"x": [[1.0]]})

        async def is_disabled() -> bool:
            return "webhook.disabled" in await list_actions(api)

        await eventually(is_disabled, "the notifier disabled the subscription")
        await call(api, "POST", f"{path}/enable")
        secret = await call(api, "POST", "/v1/webhook-secret/rotate")
        await call(api, "DELETE", path)
        page = await read_log(api)
        assert [item["action"] for item in page["items"]] == [
            "webhook.deleted",
            "secret.rotated",
            "webhook.enabled",
            "webhook.disabled",
            "webhook.rotated",
            "webhook.updated",
            "webhook.created",
            "key.created",
            "tenant.created",
        ]
        deleted, _, _, disabled, _, updated, created, key, _ = page["items"]
        assert {updated["actor"], created["actor"], deleted["actor"]} == {key["target"]}
        assert (key["actor"], key["changes"]["name"]) == ("keys create", "ci")
        assert (disabled["actor"], disabled["changes"]) == ("notifier", {"reason": "gone"})
        assert (updated["target"], updated["changes"]) == (webhook["id"], change)
        assert (created["changes"]["url"], created["changes"]["headers"]) == (inbox.url, ["x-token"])
        hidden = [HEADER, QUERY, webhook["secret"], rotated["secret"], secret["secret"]]
        assert [each for each in hidden if each in json.dumps(page)] == []
        await check_pages_and_filters(api, page["items"])
    async with open_client(stack, await make_key(stack, "other-audited", "--scope", "read")) as other:
        assert await list_actions(other) == ["key.created", "tenant.created"]


async def check_pages_and_filters(api: Api, items: list[dict[str, Any]]) -> None:
    found: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = await read_log(api, limit=4, **cursor)
        found += page["items"]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert found == items
    assert await list_actions(api, action="key.created") == ["key.created"]
    assert await list_actions(api, since="9999-01-01T00:00:00Z") == []
    assert await list_actions(api, until="2020-01-01T00:00:00Z") == []
    assert await list_actions(api, since="0001-01-01T00:00:00Z") == [item["action"] for item in items]
    refused = await api.http.get("/v1/audit-log", params={**cursor, "action": "key.created"})
    assert refused.status_code == 422


@pytest.mark.parametrize(
    "query",
    [{"since": "yesterday"}, {"until": "1"}, {"action": "key.eaten"}, {"cursor": "AAAA"}, {"limit": "0"}, {"day": "x"}],
)
async def test_wrong_parameters_are_refused(api: Api, query: dict[str, str]) -> None:
    assert (await api.http.get("/v1/audit-log", params=query)).status_code == 422


async def test_operators_read_the_log_of_a_tenant_and_of_all(stack: Stack) -> None:
    await make_key(stack, "inspected")
    assert (await run_command(stack, "limits", "tenant", "inspected", "--retention", "60")).returncode == 0
    assert (await run_command(stack, "limits", "model", "inspected", "--max-running", "3")).returncode == 0
    assert (await run_command(stack, "limits", "model", "inspected", "--max-running", "none")).returncode == 0
    listed = json.loads(await run_keys_here(stack, "list", "inspected", "--json"))
    await revoke_key(stack, listed[0]["id"])

    shown = await run_command(stack, "audit", "--tenant", "inspected")
    assert (shown.returncode, shown.stderr) == (0, "")
    entries = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [(entry["actor"], entry["action"]) for entry in entries] == [
        ("keys revoke", "key.revoked"),
        ("limits tenant", "tenant.updated"),
        ("keys create", "key.created"),
        ("keys create", "tenant.created"),
    ]
    assert {entry["tenant_id"] for entry in entries} == {entries[1]["target"]}
    assert entries[0]["target"] == listed[0]["id"]

    every = [json.loads(line) for line in (await run_command(stack, "audit")).stdout.splitlines()]
    assert [entry["id"] for entry in entries] == [
        entry["id"] for entry in every if entry["tenant_id"] == entries[0]["tenant_id"]
    ]
    of_model = [entry["changes"] for entry in every if entry["target"] == "inspected"]
    assert of_model == [{"max_running": None}, {"max_running": 3}]
    assert ("gateway", "key.created") in {(entry["actor"], entry["action"]) for entry in every}  # the bootstrap key

    unknown = await run_command(stack, "audit", "--tenant", "nobody")
    assert (unknown.returncode, unknown.stderr) == (1, "audit: tenant 'nobody' not found; `keys create` adds one\n")
