"""Scenarios of jobs: each makes some statements run, and knows what was promised."""

import asyncio
import contextlib
import secrets
from datetime import UTC, datetime, timedelta

import httpx

from common import ids
from common.postgres import database_metrics
from services.gateway.jobs.store import JobStore
from tests.support.api.model_inputs import fault, tokens, work
from tests.support.lost_answers.world import DELIVERY_SECONDS, PAUSE_SECONDS, Client, World, parse, repeat
from tests.support.waiting import eventually

ECHO = {"x": [[1.0]]}
LIMIT_SECONDS = 45.0  # for a dispatcher to know a limit, and to let the next job start
AFTER_LIMITED = ["dispatcher/claims: find_next_jobs"]
METRICS = [f"common/postgres: {name}" for name in ("disable_jit", "count_queues", "count_running", "count_totals")]
LARGE = {"x": [[1.0] * 2000]}  # 8,000 bytes, in a file
ONCE = {"max_attempts": 1}
JSON_LINES = {"Content-Type": "application/x-ndjson"}


async def submit_many(world: World) -> None:
    """Plain jobs, with callbacks and priorities."""
    inbox = world.inbox()
    for number in range(6):
        priority = ("high", "normal", "low")[number % 3]
        job = await world.client.submit(
            "echo", ECHO, output=[2.0], priority=priority, webhook={"url": inbox.url}, retry=ONCE
        )
        world.callbacks[job] = inbox.url
        await world.limited.submit("echo", ECHO, output=[2.0], retry=ONCE)
    await world.client.wait(job)


async def run_work(world: World) -> None:
    """Jobs whose executions Triton counts, long enough for their leases to be renewed."""
    for _ in range(4):
        job = await world.client.submit("work", work(1200), output=[1200])
    async with world.database() as database:
        while world.loser.list_missing(METRICS):
            await repeat(lambda: database_metrics.count(database))
            await asyncio.sleep(PAUSE_SECONDS)
    await world.client.wait(job)


async def read_job(world: World) -> None:
    """Every way to read a job."""
    client = world.client
    job = await client.submit("echo", ECHO, output=[2.0])
    await client.wait(job)
    for path in ("", "/outputs", "/attempts", "/events", "/trace", "/deliveries", "/inputs"):
        await client.get(f"/v1/jobs/{job}{path}")
    wide = await client.submit("echo", {"x": [[1.0] * 10_000]})
    await client.wait(wide)
    async with world.database() as database:  # the gateway reads them like this if a row has over 256 KiB of them
        await repeat(lambda: JobStore(database).read_inputs(parse(ids.Kind.JOB, wide)))
    await client.get("/v1/jobs")
    await client.get("/v1/jobs", model="echo")
    await client.get("/v1/stats")
    await client.get("/v1/stats/minutes")
    await client.get("/v1/usage")
    await client.get("/v1/models")
    await client.get("/v1/models/echo")
    await client.get("/v1/audit-log")


async def read_waiting_job(world: World) -> None:
    """A job of a paused model waits, and so shows its place."""
    client = world.client
    job = await client.submit("ocr_stream", {"image": {"base64": "AAAA"}}, "canceled")
    for path in ("", "/events", "/attempts", "/deliveries"):
        await client.get(f"/v1/jobs/{job}{path}")
    await client.call("GET", f"/v1/jobs/{job}/outputs", 409)
    await client.get("/v1/stats")
    await client.call("POST", f"/v1/jobs/{job}/cancel", 202, 409)
    await client.wait(job, "canceled")


async def cancel_running(world: World) -> None:
    """A job that runs. It may go back to the queue just before, so another one follows until an answer was lost."""
    await cancel_one(world)
    async with asyncio.timeout(DELIVERY_SECONDS):
        while world.loser.list_missing(["common/jobs: cancel_running"]):
            await cancel_one(world)


async def cancel_one(world: World) -> None:
    client = world.client
    job = await client.submit("work", work(60_000), "canceled")
    await client.wait(job, "processing")
    await client.get("/v1/stats")
    await client.call("POST", f"/v1/jobs/{job}/cancel", 202, 409)
    await client.wait(job, "canceled")


async def retry_failed(world: World) -> None:
    """Failures, retries of the dispatcher and of the client, and dead letters."""
    client = world.client
    flaky = {"max_attempts": 4, "initial_delay": 0.1, "max_delay": 0.2}
    other = await client.submit("faulty", {"mode": ["fail_times"], "value": [2]}, retry=flaky)
    failed = [await client.submit("faulty", fault("invalid"), "failed", retry=ONCE) for _ in range(3)]
    for job in failed:
        await client.wait(job, "failed")
    await client.get(f"/v1/jobs/{failed[0]}/attempts")
    await client.get("/v1/dead-letters")
    await world.limited.call("POST", f"/v1/jobs/{failed[0]}/retry", 202, 409)
    ids = [failed[1], other]  # the other one is no dead letter
    await client.call("POST", "/v1/dead-letters/replay", 202, json={"ids": ids, "target_model": "faulty"})
    await client.wait(failed[1], "failed")
    await client.call("POST", "/v1/dead-letters/replay", 202, json={"filter": {"model": "faulty"}})
    for job in failed:
        await client.wait(job, "failed")


async def schedule(world: World) -> None:
    """A job for later, and one that expires."""
    client = world.client
    later = datetime.now(UTC) + timedelta(seconds=1)
    job = await client.submit("echo", ECHO, output=[2.0], run_at=later.isoformat())
    expired = await client.submit("ocr", {"image": {"base64": "AAAA"}}, "expired", expires_in=1)
    await client.wait(job)
    await client.wait(expired, "expired")


async def erase(world: World) -> None:
    """Jobs of the other tenant, whose usage is not compared: their events go."""
    client, inbox = world.other, world.inbox()
    job = await client.submit("echo", ECHO, output=None, webhook={"url": inbox.url})
    await client.wait(job)
    await inbox.wait(within=DELIVERY_SECONDS)
    await client.call("POST", f"/v1/jobs/{job}/erase", 204, 409)


async def submit_batch(world: World) -> None:
    client, key = world.client, secrets.token_hex(8)
    large = {"model": "echo", "inputs": LARGE, "metadata": {"batch": key}}
    items = [{"model": "echo", "inputs": ECHO, "metadata": {"batch": key}} for _ in range(3)]
    items += [large, {"model": "echo", "inputs": {}}]
    found = {
        (await client.call("POST", "/v1/batches", 202, json=items, headers={"Idempotency-Key": key})).json()["id"]
        for _ in range(2)
    }
    (batch,) = found

    async def completed() -> bool:
        return bool((await client.get(f"/v1/batches/{batch}"))["status"] == "completed")

    await client.get("/v1/jobs", batch=batch)
    await client.call("GET", f"/v1/batches/{batch}", params={}, headers={"Prefer": "wait=5"})
    await eventually(completed, f"{batch} is completed", 45)

    async def results() -> list[str] | None:
        """Return all lines: a lost answer ends the stream."""
        with contextlib.suppress(httpx.HTTPError):
            return (await client.call("GET", f"/v1/batches/{batch}/results", 200)).text.splitlines()
        return None

    assert len(await eventually(results, "all results come")) == len(items)
    rows = await world.read(
        "SELECT count(*) AS jobs FROM jobs WHERE convert_from(metadata, 'UTF8')::jsonb->>'batch' = $1", key
    )
    assert rows[0]["jobs"] == len(items) - 1


async def cancel_batch(world: World) -> None:
    """Jobs that wait for their time, so that they are there to cancel."""
    client, later = world.client, (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    jobs = [{"model": "echo", "inputs": ECHO, "run_at": later} for _ in range(3)]
    headers = {"Idempotency-Key": secrets.token_hex(8)}
    batch = (await client.call("POST", "/v1/batches", 202, json=jobs, headers=headers)).json()["id"]
    await client.call("POST", f"/v1/batches/{batch}/cancel", 202, 409)

    async def canceled() -> bool:
        return bool((await client.get(f"/v1/batches/{batch}"))["counts"]["canceled"] == len(jobs))

    await eventually(canceled, f"the jobs of {batch} are canceled", 60)


async def large(world: World) -> None:
    """Inputs and outputs in files, and a job that reads a file."""
    client = world.client
    await client.submit("echo", LARGE)
    content = b"\0\0\x80?" * 4
    file = (await client.call("POST", "/v1/files", 201, content=content)).json()["id"]
    job = await client.submit("excerpt", {"audio": {"file": file}})
    await client.wait(job)
    # The gateway counts the files of this tenant for the first time, and there is one.
    await world.other.call("POST", "/v1/files", 201, content=content)
    await world.other.wait(await world.other.submit("echo", LARGE))
    target = {"location": f"s3://{world.bucket}/out/"}
    await submit_to_location(client, target)


async def submit_to_location(client: Client, target: object) -> None:
    key = secrets.token_hex(8)
    body = {"model": "echo", "inputs": ECHO, "output": target, "metadata": {"key": key}}
    await client.call("POST", "/v1/jobs", 202, json=body, headers={"Idempotency-Key": key})


async def stream(world: World) -> None:
    """A streaming model, followed by a stream of events that may break."""
    client = world.client
    job = await client.submit("tokens", tokens(["a", "b" * 6000, "c"], delay_ms=300))

    async def follow() -> bool:
        with contextlib.suppress(httpx.HTTPError):
            response = await client.call("GET", f"/v1/jobs/{job}/events", 200, headers={"Accept": "text/event-stream"})
            return "job.succeeded" in response.text
        return False

    await eventually(follow, "the stream has the end", 45)
    await client.get(f"/v1/jobs/{job}/events")


async def follow_feed(world: World) -> None:
    client = world.client
    waiting = asyncio.create_task(client.get("/v1/events", after="latest", wait=10))
    await client.submit("echo", ECHO, output=[2.0])
    await waiting
    page = await client.get("/v1/events", limit=2)
    await client.get("/v1/events", after=page["items"][0]["id"], limit=2)
    large_event = await client.submit("echo", {"x": [[1.0] * 900]})
    await client.wait(large_event)


async def infer(world: World) -> None:
    inputs = [{"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [1]}]
    answer = await world.client.call("POST", "/v2/models/echo/infer", 200, json={"inputs": inputs})
    assert answer.json()["outputs"][0]["data"] == [2.0]
    for path in ("", "/config", "/ready"):
        await world.client.call("GET", f"/v2/models/echo{path}", 200)


async def limit_runs(world: World) -> None:
    """A model with a limit, whose claims take turns."""
    await world.own.execute(
        "INSERT INTO model_limits (model, max_running) VALUES ('work_small', 1) ON CONFLICT DO NOTHING"
    )
    async with asyncio.timeout(LIMIT_SECONDS):
        while world.loser.list_missing(AFTER_LIMITED):  # a second passes before a dispatcher knows the limit
            for _ in range(3):
                job = await world.client.submit("work_small", work(200), output=[20])
            await world.client.wait(job)


SCENARIOS = (
    submit_many,
    run_work,
    read_job,
    read_waiting_job,
    cancel_running,
    retry_failed,
    schedule,
    erase,
    submit_batch,
    cancel_batch,
    large,
    stream,
    follow_feed,
    infer,
    limit_runs,
)
