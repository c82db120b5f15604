"""Compares what was promised with the rows, with what Triton ran, and with what receivers got."""

import json
from collections import defaultdict
from collections.abc import AsyncIterator

from common import ids
from common.postgres import sql
from tests.support.lost_answers.proxy import Place
from tests.support.lost_answers.world import Client, World, parse
from tests.support.telemetry.scraped_metrics import read_metric
from tests.support.waiting import eventually

QUERIES = sql.load("tests.support.lost_answers", "check.sql")
QUIET_SECONDS = 120.0  # a claim of a delivery lasts 16 s, and some may be lost
CLAIMS = ("common/jobs: claim_jobs", "common/jobs: requeue_jobs")
NEAR_SECONDS = 2.0  # between a claim and one whose answer is lost, for the claims that wait for the same lock
# Of the model `faulty`, as asked, and of the runs with it.
OWN_FAILURES = ("inference_failed", "invalid_input", "triton_unavailable", "step_failed")


async def wait_until_quiet(world: World) -> None:
    """Return once every job, delivery and batch has ended and is counted. Otherwise something is stuck."""
    left: list[str] = []

    async def is_quiet() -> bool:
        left[:] = [row["what"] for row in await world.read(QUERIES["find_open"])]
        return not left

    try:
        await eventually(is_quiet, "all has ended", QUIET_SECONDS)
    except AssertionError:
        raise AssertionError(f"not ended after {QUIET_SECONDS:g} s: {left}") from None


async def find_violations(world: World) -> list[str]:
    """Return what is not as promised."""
    uncounted = [row["id"] for row in await world.read("SELECT id FROM tenants WHERE name LIKE 'other-%'")]
    found = [f"{row['rule']}: {row['subject']}" for row in await world.read(QUERIES["find_broken"], world.removed_id)]
    found += [f"usage: {row}" for row in await world.read(QUERIES["compare_usage"], uncounted)]
    found += [f"bytes: {row}" for row in await world.read(QUERIES["compare_bytes"], uncounted)]
    for client in (world.client, world.limited, world.other):
        found += [text async for text in check_promises(world, client)]
    found += [text async for text in check_attempts(world)]
    return found + [text async for text in check_webhooks(world)]


async def check_promises(world: World, client: Client) -> AsyncIterator[str]:
    for promise in client.promises.values():
        job = await client.get(f"/v1/jobs/{promise.id}")
        if job["status"] not in promise.ends:
            yield f"{promise.id} is {job['status']}, not {' or '.join(promise.ends)}: {job['error']}"
        if promise.output is not None and job["outputs"][0]["data"] != promise.output:
            yield f"{promise.id} has {job['outputs']}, not {promise.output}"
        if job["model"] == "work" and job["status"] == "succeeded":
            runs = await read_metric(world.stack.triton.metrics_url, "work_executions_total", request_id=promise.id)
            if runs != (0 if job.get("reused_from") else 1):
                yield f"{promise.id} ran {runs} times"


async def check_attempts(world: World) -> AsyncIterator[str]:
    """An attempt is lost only with the answer of its claim."""
    lost = [
        (each.began - NEAR_SECONDS, each.at + NEAR_SECONDS)
        for each in world.loser.lost
        if each.fault.statement in CLAIMS and each.fault.place is not Place.INSIDE
    ]
    for row in await world.read(QUERIES["list_attempts"]):
        began = row["started_at"].timestamp()
        is_explained = row["error_code"] in OWN_FAILURES or any(first < began < last for first, last in lost)
        if not is_explained and row["job_id"] not in world.moved_jobs:
            yield f"{ids.encode(ids.Kind.JOB, row['job_id'])} has an attempt that nothing explains: {row}"


async def check_webhooks(world: World) -> AsyncIterator[str]:
    """An event has one id for each subscription, and an id one body. Each callback comes."""
    endpoints = {row["id"]: row["endpoint_id"] for row in await world.read("SELECT id, endpoint_id FROM deliveries")}
    for inbox in world.inboxes:
        by_event: dict[tuple[str, object], set[str]] = defaultdict(set)
        by_id: dict[str, set[bytes]] = defaultdict(set)
        for delivery in inbox.deliveries:
            body = json.loads(delivery.request.body)
            by_id[delivery.id].add(delivery.request.body)
            endpoint = endpoints.get(parse(ids.Kind.DELIVERY, delivery.id))
            if endpoint is not None and body["type"] != "webhook.test":  # each call for a test is another one
                by_event[f"{body['type']} {body.get('sequence')} {body['data']['id']}", endpoint].add(delivery.id)
        for (event, _), found in by_event.items():
            if len(found) > 1:
                yield f"{event} came as {found}"
        for found_id, bodies in by_id.items():
            if len(bodies) > 1:
                yield f"{found_id} came with two bodies"
        jobs = {event.rpartition(" ")[2] for event, _ in by_event}
        for job, url in world.callbacks.items():
            if url == inbox.url and job not in jobs:
                yield f"no callback came for {job}"
