"""Scenarios of subscriptions, files, keys and commands."""

import asyncio
import os

import httpx

from common import ids
from tests.support.api.model_inputs import fault, tokens
from tests.support.lost_answers.job_scenarios import ECHO, ONCE
from tests.support.lost_answers.world import DELIVERY_SECONDS, World, parse
from tests.support.s3.replacement import replace
from tests.support.waiting import eventually

RELEASE_SECONDS = 45.0
RELEASED, RELEASED_BY_END = ["gateway/webhooks: release_blocked"], ["notifier/delivery_attempts: release_blocked"]
# One that ends just now moves to another partition, where an update cannot follow it.
FREE = """
WITH free AS (
  SELECT event_id FROM live_deliveries WHERE endpoint_id = $1 AND next_at IS NOT NULL FOR UPDATE SKIP LOCKED
)
"""
# The notifier gives up a delivery behind an open circuit once its schedule is over.
DELAY = f"""{FREE}
UPDATE live_deliveries d SET next_at = now() + interval '1 h', schedule_started_at = now() + interval '1 h'
FROM free
WHERE d.endpoint_id = $1 AND d.event_id = free.event_id
"""  # noqa: S608 -- a constant
MAKE_FIRST_DUE = f"""{FREE}
UPDATE live_deliveries d SET next_at = now()
FROM free
WHERE d.endpoint_id = $1 AND d.event_id = free.event_id AND blocked_until(d.event_id, d.endpoint_id) IS NULL
"""  # noqa: S608 -- a constant
SELECT_BLOCKED = """
SELECT FROM deliveries
WHERE endpoint_id = $1 AND next_at > now() AND tries = 0 AND (lease_until > now()) IS NOT TRUE
  AND blocked_until(event_id, endpoint_id) IS NOT NULL
"""


async def subscribe(world: World) -> None:
    """The life of a subscription."""
    client, inbox = world.client, world.inbox()
    body = {"url": inbox.url, "events": ["job.*"], "models": ["faulty"], "ordered": True, "headers": {"x-a": "b"}}
    made = (await client.call("POST", "/v1/webhooks", 201, json=body)).json()
    path = f"/v1/webhooks/{made['id']}"
    await client.get("/v1/webhooks")
    await client.get(path)
    job = await client.submit("faulty", fault("ok"), retry=ONCE)
    await client.wait(job)
    await inbox.wait(within=DELIVERY_SECONDS)
    await client.call("POST", f"{path}/test", 200)
    await client.call("POST", f"{path}/rotate", 200, 409, json={"grace_period": 60})
    await client.call("POST", f"{path}/rotate", 200, 409, json={"grace_period": 0})
    await client.get(f"{path}/health")
    await client.get("/v1/webhooks/health")
    await client.call("POST", f"{path}/disable", 200)
    await client.call("POST", f"{path}/enable", 200)
    (delivery, *_) = (await client.get(f"{path}/deliveries", event_type="job.succeeded"))["items"]
    await client.get(f"/v1/deliveries/{delivery['id']}")
    await client.get(f"/v1/deliveries/{delivery['id']}/body")
    await client.call("POST", f"/v1/deliveries/{delivery['id']}/redeliver", 200, 202)
    await client.call("PATCH", path, 200, json={"ordered": False, "rate_limit": 100})
    await client.call("DELETE", path, 204, 404)


async def recover(world: World) -> None:
    """Deliveries that fail, exhaust and are recovered."""
    client, inbox = world.client, world.inbox(*[500] * 100)  # an attempt whose recording fails too often is repeated
    body = {"url": inbox.url, "events": ["job.canceled"], "models": ["ocr"]}
    made = (await client.call("POST", "/v1/webhooks", 201, json=body)).json()
    path = f"/v1/webhooks/{made['id']}"
    job = await client.submit("ocr", {"image": {"base64": "AAAA"}}, "canceled")
    await client.call("POST", f"/v1/jobs/{job}/cancel", 202, 409)

    async def is_exhausted() -> bool:
        return bool((await client.get(f"{path}/deliveries", status="exhausted"))["items"])

    await eventually(is_exhausted, "the delivery is exhausted", DELIVERY_SECONDS)
    inbox.answers.clear()
    wanted = {"since": "2026-01-01T00:00:00Z"}
    recovery = (await client.call("POST", f"{path}/recoveries", 202, json=wanted)).json()

    async def is_recovered() -> bool:
        done = (await client.get(f"{path}/recoveries/{recovery['id']}"))["status"] == "completed"
        return done and bool((await client.get(f"{path}/deliveries", status="succeeded"))["items"])

    await eventually(is_recovered, "the recovery is done", DELIVERY_SECONDS)


async def release(world: World) -> None:
    """A subscription that is no longer ordered, while a delivery waits for an earlier one."""
    client, own, inbox = world.client, world.own, world.inbox()
    body = {"url": inbox.url, "events": ["job.started", "job.succeeded"], "models": ["tokens"], "ordered": True}
    made = (await client.call("POST", "/v1/webhooks", 201, json=body)).json()
    endpoint = parse(ids.Kind.WEBHOOK, made["id"])
    await own.execute(
        "UPDATE endpoints SET failures = 1, failing_since = now(), open_until = now() + interval '1 h' WHERE id = $1",
        endpoint,
    )
    await client.submit("tokens", tokens(["a"]))

    async def is_blocked() -> bool:
        """Keep the deliveries from being sent. Return whether one waits for an earlier one."""
        await own.execute(DELAY, endpoint)
        return bool(await own.fetch(SELECT_BLOCKED, endpoint))

    async with asyncio.timeout(RELEASE_SECONDS):
        # A repeat after a lost commit finds the subscription changed, and releases nothing. So it is ordered again.
        while world.loser.list_missing(RELEASED):
            await client.call("PATCH", f"/v1/webhooks/{made['id']}", 200, json={"ordered": True})
            await eventually(is_blocked, "a delivery waits for an earlier one", RELEASE_SECONDS)
            await client.call("PATCH", f"/v1/webhooks/{made['id']}", 200, json={"ordered": False})
    # Ordered again, the end of the first delivery makes the other one due.
    await client.call("PATCH", f"/v1/webhooks/{made['id']}", 200, json={"ordered": True})
    await own.execute(DELAY, endpoint)
    await own.execute(MAKE_FIRST_DUE, endpoint)
    await client.call("POST", f"/v1/webhooks/{made['id']}/enable", 200)
    await own.execute("UPDATE endpoints SET next_at = now() WHERE id = $1", endpoint)

    async def is_lost() -> bool:
        return not world.loser.list_missing(RELEASED_BY_END)

    await eventually(is_lost, "the answer of a release is lost", DELIVERY_SECONDS)


async def gone(world: World) -> None:
    """A receiver that is gone: its subscription is disabled, and what waits is canceled."""
    client, inbox = world.client, world.inbox(*[500] * 3, *[410] * 50)
    body = {"url": inbox.url, "events": ["job.succeeded"], "models": ["echo"], "rate_limit": 1}
    made = (await client.call("POST", "/v1/webhooks", 201, json=body)).json()
    for _ in range(3):
        await client.submit("echo", ECHO, output=[2.0])
    path = f"/v1/webhooks/{made['id']}"

    async def disabled() -> bool:
        found = await client.get(path)
        waiting = await client.get(f"{path}/deliveries", status="pending")
        return found["status"] == "disabled" and not waiting["items"]

    await eventually(disabled, "the subscription is disabled, and nothing waits", DELIVERY_SECONDS)


async def rotate_secret(world: World) -> None:
    client = world.other
    await client.get("/v1/webhook-secret")
    await client.call("POST", "/v1/webhook-secret/rotate", 200, 409, json={"grace_period": 60})
    await client.call("POST", "/v1/webhook-secret/rotate", 200, 409, json={"grace_period": 0})


async def make_keys(world: World) -> None:
    client = world.client
    made = (await client.call("POST", "/v1/keys", 201, json={"name": "one", "scopes": ["read"]})).json()
    await client.get("/v1/keys")
    await client.get(f"/v1/keys/{made['id']}")
    headers = {"Authorization": f"Bearer {made['key']}"}
    await client.call("GET", "/v1/models", 200, headers=headers)
    await client.call("DELETE", f"/v1/keys/{made['id']}", 204, 404)


async def use_files(world: World) -> None:
    client = world.client
    file = (await client.call("POST", "/v1/files", 201, content=b"x" * 5000)).json()["id"]
    await client.get("/v1/files")
    await client.get(f"/v1/files/{file}")
    await client.call("DELETE", f"/v1/files/{file}", 204, 404)
    wrong = {"sha256": "0" * 64}
    await client.call("POST", "/v1/files", 422, content=b"x" * 5000, params=wrong)
    for size, status in ((5, 200), (6, 409)):
        made = (await client.call("POST", "/v1/files/presign", 201, json={"size": size})).json()
        upload = made["upload"]
        async with httpx.AsyncClient(timeout=40) as http:
            sent = b"12345".ljust(size)
            put = await http.request(upload["method"], upload["url"], content=sent, headers=upload["headers"])
        assert put.is_success
        if status == 409:
            await replace(os.environ, upload, b"12345")
        await client.call("GET", f"/v1/files/{made['id']}", status, 404 if status == 409 else status)


SCENARIOS = (subscribe, recover, release, gone, rotate_secret, make_keys, use_files)
