"""The keys command creates, lists and revokes keys. A key may make only the calls of its scopes."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosedError

from common import ids
from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api.api_client import Api, Job, read
from tests.support.api.event_stream import read_events
from tests.support.api.model_inputs import work
from tests.support.stacks.key_command import make_key, revoke_key, run_keys, run_keys_here
from tests.support.stacks.own_gateway import LONG_KEY_CACHE, another_gateway
from tests.support.telemetry.scraped_metrics import wait_for_metric
from tests.support.waiting import eventually

ECHO = {"model": "echo", "inputs": {"x": [[1.0]]}}
NO_JOB = f"job_{'0' * 26}"
# An allowed call gets an error, because nothing of what it names exists.
CALLS = {
    "submit": [
        ("POST", "/v1/jobs"),
        ("POST", f"/v1/jobs/{NO_JOB}/cancel"),
        ("POST", f"/v1/jobs/{NO_JOB}/retry"),
    ],
    "read": [
        *(("GET", f"/v1/jobs/{NO_JOB}{path}") for path in ("", "/attempts", "/deliveries", "/outputs")),
        *(("GET", path) for path in ("/v1/models", "/v1/dead-letters", "/v1/webhooks", "/v1/deliveries/none")),
    ],
    "admin": [
        *(("POST", path) for path in ("/v1/webhooks", "/v1/dead-letters/replay", "/v1/webhook-secret/rotate")),
        *((method, "/v1/webhooks/none") for method in ("PATCH", "DELETE")),
        ("GET", "/v1/keys"),
        ("POST", "/v1/keys"),
        ("DELETE", "/v1/keys/none"),
        ("GET", "/v1/webhook-secret"),
        ("POST", "/v1/deliveries/none/redeliver"),
    ],
}
SUBMITS: dict[str, dict[str, Any]] = {
    "good": {"json": ECHO},
    "repeated": {"json": ECHO, "headers": {"Idempotency-Key": "before"}},
    "unreadable": {"content": "[]"},
    "unknown parameter": {"json": ECHO, "params": {"unknown": "1"}},
    "too large": {
        "content": b" " * (32 * 1024 * 1024 + 1),
        "headers": {"Content-Type": "application/json"},
    },
}


@pytest.fixture(scope="module")
async def remembering_gateways(stack: Stack) -> AsyncIterator[list[str]]:
    """The URLs of two gateways that forget a key only when they are told."""
    async with (
        another_gateway(stack, name="gateway-remembering-1", **LONG_KEY_CACHE) as first,
        another_gateway(stack, name="gateway-remembering-2", **LONG_KEY_CACHE) as second,
    ):
        yield [first.url, second.url]


async def list_keys(stack: Stack, *arguments: str) -> list[dict[str, object]]:
    return msgspec.json.decode(await run_keys_here(stack, "list", *arguments, "--json"), type=list[dict[str, object]])


async def call_api(api: Api, method: str, path: str) -> tuple[int, str]:
    """Return the status of a call, and the detail if it was refused."""
    response = await api.http.request(method, path, content="[]" if method in ("POST", "PATCH") else None)
    refused = response.status_code == 403
    assert not refused or response.json()["type"] == "urn:charonia:problem:forbidden"
    return response.status_code, response.json()["detail"] if refused else ""


async def wait_until_refused(api: Api) -> None:
    """Return once the gateway has the message that the key was revoked."""

    async def poll() -> bool:
        return (await api.http.get("/v1/models")).status_code == 401

    await eventually(poll, f"{api.http.base_url} refuses the key")


async def read_to_end(socket: ClientConnection) -> None:
    async for _ in socket:
        continue


@pytest.mark.parametrize("scope", ["submit", "read", "admin"])
async def test_key_may_make_only_the_calls_of_its_scope(stack: Stack, scope: str) -> None:
    async with open_client(stack, await make_key(stack, "scoped", "--scope", scope)) as api:
        for needed, calls in CALLS.items():
            for method, path in calls:
                status, detail = await call_api(api, method, path)
                if scope in (needed, "admin"):
                    assert status in (200, 400, 404, 422), path
                else:
                    text = f"this call needs a key with the scope '{needed}'; the key has '{scope}'"
                    assert (status, detail) == (403, text), path


async def test_revoked_key_is_refused_at_once_by_every_gateway(stack: Stack, remembering_gateways: list[str]) -> None:
    key = await make_key(stack, "leaving")
    (row,) = [row for row in await list_keys(stack, "leaving") if row["revoked_at"] is None]
    urls = remembering_gateways
    async with open_client(stack, key, urls[0]) as first, open_client(stack, key, urls[1]) as second:
        for api in (first, second):
            assert (await api.http.post("/v1/jobs", json=ECHO)).status_code == 202
        revoked = await run_keys(stack, "revoke", str(row["id"]))
        assert (revoked.returncode, revoked.stdout) == (0, f"Revoked {row['id']}.\n")
        for api in (first, second):
            await wait_until_refused(api)
            response = await api.http.post("/v1/jobs", json=ECHO)
            assert (response.status_code, response.json()["type"]) == (401, "urn:charonia:problem:unauthorized")
    again = await run_keys(stack, "revoke", str(row["id"]))
    (revoked_row,) = [each for each in await list_keys(stack, "leaving") if each["id"] == row["id"]]
    assert (again.returncode, revoked_row["revoked_at"] is None) == (0, False)


async def test_cached_key_gets_only_401_once_it_is_revoked(stack: Stack, remembering_gateways: list[str]) -> None:
    count = "SELECT count(*) FROM jobs JOIN tenants t ON t.id = tenant_id WHERE t.name = 'forgotten'"
    async with open_client(stack, await make_key(stack, "forgotten"), remembering_gateways[0]) as api:
        (row,) = [row for row in await list_keys(stack, "forgotten") if row["revoked_at"] is None]
        first = await api.http.post("/v1/jobs", json=ECHO, headers={"Idempotency-Key": "before"})
        assert first.status_code == 202
        before = stack.postgres.query(count, "charonia")
        await revoke_key(stack, str(row["id"]))
        await wait_until_refused(api)
        statuses = {name: (await api.http.post("/v1/jobs", **call)).status_code for name, call in SUBMITS.items()}
        assert statuses == dict.fromkeys(SUBMITS, 401)
    assert stack.postgres.query(count, "charonia") == before


async def test_streams_and_waits_end_when_their_key_is_revoked(stack: Stack, gateways: list[str]) -> None:
    key, other = await make_key(stack, "listening", "--name", "lost"), await make_key(stack, "listening")
    (row,) = [row for row in await list_keys(stack, "listening") if row["name"] == "lost"]
    words = ["word"] * 1200  # for a minute, in which the key is revoked
    bearer = {"Authorization": f"Bearer {key}"}
    async with open_client(stack, key, gateways[0]) as revoked_client, open_client(stack, other, gateways[1]) as api:
        submitted = await revoked_client.submit("tokens", {"text": [" ".join(words)], "delay_ms": [50]})
        quiet = await revoked_client.submit("work", work(60_000))

        async def have_begun() -> bool:
            items = (await api.http.get(f"/v1/jobs/{submitted.id}/events")).json()["items"]
            return "job.output" in [each["type"] for each in items]

        await eventually(have_begun, "the first job has a response")
        await api.wait(quiet.id, "processing")
        urls = [f"ws{gateways[0].removeprefix('http')}/v1/jobs/{job.id}/events" for job in (submitted, quiet)]
        async with (
            connect(urls[0], additional_headers=bearer) as socket,
            connect(urls[1], additional_headers=bearer) as quiet_socket,
        ):
            streaming, streaming_quiet = [
                asyncio.create_task(read_events(revoked_client.http, job.id)) for job in (submitted, quiet)
            ]
            waiting = asyncio.create_task(revoked_client.http.get(f"/v1/jobs/{quiet.id}?wait=60", timeout=90))
            await wait_for_metric(f"{gateways[0]}/metrics", "charonia_waiters", 5)
            await revoke_key(stack, str(row["id"]))
            for each in (socket, quiet_socket):
                with pytest.raises(ConnectionClosedError):
                    await read_to_end(each)
                assert each.close_code == 1008
        events = await streaming
        assert [each.type for each in await streaming_quiet] == ["job.queued", "job.started"]
        assert (await waiting).status_code == 401
        assert (await api.get(submitted.id)).status in ("queued", "processing")  # it goes on
        for job in (submitted, quiet):
            read(await api.http.post(f"/v1/jobs/{job.id}/cancel"), 202, Job)
            await api.wait(job.id)
    assert (len(events) < len(words), events[-1].type) == (True, "job.output")


async def test_keys_are_listed_without_their_secrets(stack: Stack) -> None:
    key = await make_key(stack, "shown", "--name", "for the list", "--scope", "read", "submit", "--rate-limit", "50")
    async with open_client(stack, key) as api:
        assert (await api.http.get("/v1/models")).status_code == 200
    (row,) = await list_keys(stack, "shown")
    assert (row["tenant"], row["name"], row["scopes"]) == ("shown", "for the list", ["read", "submit"])
    assert (row["rate_limit"], row["revoked_at"]) == (50, None)
    assert str(row["created_at"]) <= str(row["last_used_at"])
    assert row in await list_keys(stack)
    table = (await run_keys(stack, "list", "shown")).stdout
    assert [line.split()[0] for line in table.splitlines()] == ["ID", row["id"]]
    assert key not in table + str(row)


async def test_command_reports_what_is_wrong(stack: Stack) -> None:
    unknown = ids.encode(ids.Kind.KEY, ids.new())
    for arguments, code, text in [
        (("revoke", unknown), 1, f"keys: key '{unknown}' not found; `list` shows the keys"),
        (("revoke", "ch_dev"), 2, "'ch_dev' is not the id of a key; `list` shows the ids"),
    ]:
        command = await run_keys(stack, *arguments)
        assert (command.returncode, command.stdout) == (code, "")
        assert text in command.stderr


async def test_a_key_expires(stack: Stack) -> None:
    key = await make_key(stack, "brief", "--expires-at", "2100-01-01T00:00:00Z")
    (listed,) = await list_keys(stack, "brief")
    assert listed["expires_at"] == "2100-01-01T00:00:00.000Z"
    soon = """
    UPDATE api_keys k SET expires_at = now() + interval '3 seconds'
    FROM tenants t WHERE t.id = k.tenant_id AND t.name = 'brief'
    """
    await asyncio.to_thread(stack.postgres.query, soon, "charonia")
    async with open_client(stack, key) as api:

        async def read_refusal() -> httpx.Response | None:
            response = await api.http.get("/v1/models")
            return None if response.status_code == 200 else response

        refused = await eventually(read_refusal, "the key expires")
        assert (refused.status_code, refused.json()["detail"]) == (401, "this API key has expired; use another one")


async def test_the_development_key_is_refused_under_the_name_of_another_site(stack: Stack, api: Api) -> None:
    """A browser sends the name of a page's own site, which may lead here."""
    refused = await api.http.get("/v1/models", headers={"Host": "evil.example:8080"})
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:charonia:problem:host_refused")
    assert (await api.http.get("/v1/models", headers={"Host": "gateway:8080"})).status_code == 200
    async with open_client(stack, await make_key(stack, "default")) as own:
        assert (await own.http.get("/v1/models", headers={"Host": "evil.example:8080"})).status_code == 200
