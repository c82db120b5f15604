"""Scenarios of what services do by themselves: seldom, or after faults.

The rows that lead to it are written past the proxy.
"""

import contextlib
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx

from common import ids
from common.jobs import input_files
from common.jobs.rescue import find_beside
from common.object_store.store import ObjectStore
from common.postgres.leadership import LeaseStore
from services.dispatcher.maintenance.files import expired_files
from services.dispatcher.maintenance.files.store import UnneededFileStore
from services.dispatcher.maintenance.retention import own_retention
from services.dispatcher.maintenance.retention.store import RetentionStore
from services.dispatcher.maintenance.usage.store import roll_up
from services.dispatcher.models.load_store import LoadStore, LoadToSave
from services.dispatcher.models.store import ModelStore
from services.dispatcher.quarantines.store import QuarantineStore
from services.dispatcher.results.store import ResultStore
from services.gateway.batches.store import BatchStore
from services.gateway.events.feed.store import FeedStore
from services.gateway.events.store import EventPosition, EventStore
from services.gateway.jobs.store import JobStore
from tests.support.api.model_inputs import tokens
from tests.support.lost_answers.history_steps import repeat_history
from tests.support.lost_answers.job_scenarios import ECHO, ONCE
from tests.support.lost_answers.world import World, parse, repeat
from tests.support.waiting import eventually

DAYS = 86_400.0
LONG = timedelta(days=400)
PAUSED_IMAGE = {"image": {"base64": "AAAA"}}


async def remove_old(world: World) -> None:
    """Jobs, batches, keys and audit entries of a tenant are old, or kept for a short time only."""
    client, own = world.removed, world.own
    old, uncounted = [await client.submit("echo", ECHO) for _ in range(2)], await client.submit("echo", ECHO)
    await client.submit("echo", ECHO, retain=1)  # the dispatcher may remove it soon after its end
    batches = [
        (await client.call("POST", "/v1/batches", 202, json=[{"model": "echo", "inputs": ECHO}])).json()["id"]
        for _ in range(3)
    ]
    for job in (*old, uncounted):
        await client.wait(job)

    async def all_completed() -> bool:
        found = [(await client.get(f"/v1/batches/{each}"))["status"] for each in batches]
        return {*found} == {"completed"}

    await eventually(all_completed, "the batches are completed", 45)

    await world.wait_until_counted()
    async with world.database() as database:
        await own.execute(
            "UPDATE jobs SET ended_xid = '9000000000000000000' WHERE id = $1", parse(ids.Kind.JOB, uncounted)
        )
        await repeat(lambda: roll_up(database, 100))
    await own.execute(
        "UPDATE jobs SET created_at = created_at - $2::interval, finished_at = finished_at - $2 WHERE id = ANY($1)",
        [parse(ids.Kind.JOB, each) for each in old],
        LONG,
    )
    await own.execute(
        "UPDATE idempotency_keys SET created_at = created_at - $2::interval WHERE tenant_id = $1",
        world.removed_id,
        LONG,
    )
    await own.execute(
        "INSERT INTO api_keys (id, tenant_id, name, key_hash, expires_at) VALUES "
        "(gen_random_uuid(), $1, 'expired', sha256('expired'), now() - $2::interval)",
        world.removed_id,
        LONG,
    )
    await own.execute(
        "INSERT INTO audit_log (id, at, actor, action, target, changes) VALUES "
        "(gen_random_uuid(), now() - $1::interval, 'test', 'model.paused', 'old', '{}')",
        LONG,
    )
    await own.execute(
        "INSERT INTO batches (id, tenant_id, total, accepted, finished_at, traceparent) VALUES "
        "(gen_random_uuid(), $1, 1, 1, now() - $2::interval, '')",
        world.removed_id,
        LONG,
    )
    await repeat_history(world, [parse(ids.Kind.JOB, each) for each in old])
    await own.execute("UPDATE tenants SET retention = 1 WHERE id = $1", world.removed_id)
    async with world.database() as database:
        store = RetentionStore(database)
        await repeat(lambda: store.remove_keys(100))
        await repeat(lambda: store.remove_expired_api_keys(100))
        await repeat(lambda: store.remove_audit_log(365 * DAYS, 100))
        await repeat(lambda: store.remove_batches(30 * DAYS, 100, 100))

        async def all_removed() -> bool:
            await repeat(lambda: own_retention.remove_retained(RetentionStore(database)))
            return not await own.fetch("SELECT FROM jobs WHERE tenant_id = $1", world.removed_id)

        await eventually(all_removed, "all jobs are removed", 45)


async def sweep_files(world: World) -> None:
    objects = ObjectStore(world.stack.environment["CHARONIA_STORE_URL"])
    async with world.database() as database:
        store = UnneededFileStore(database)
        for _ in range(6):
            await world.own.execute(
                "INSERT INTO files (id, tenant_id, content_type, size, kept, expires_at) VALUES "
                "($1, $2, 'text/plain', 1, 600, now())",
                uuid4(),
                world.removed_id,
            )
            await repeat(lambda: expired_files.sweep(store, objects))
        presigned = uuid4()
        await world.own.execute(
            "INSERT INTO files (id, tenant_id, status, content_type, size, kept, expires_at, writable_until) VALUES "
            "($1, $2, 'ready', 'text/plain', 1, 600, now() + interval '600 s', now() - interval '2 h')",
            presigned,
            world.removed_id,
        )
        await repeat(lambda: expired_files.check_sizes(store, objects))
        await repeat(lambda: store.check_again({presigned: 2}))
        dropped = uuid4()
        await world.own.execute(
            "INSERT INTO files (id, tenant_id, content_type, size, kept, expires_at) VALUES "
            "($1, $2, 'text/plain', 1, 600, now() + interval '600 s')",
            dropped,
            world.removed_id,
        )
        await repeat(lambda: ResultStore(database).drop_files([dropped]))
    objects.close()


async def lose_dispatcher(world: World) -> None:
    """A job runs in the session of a dispatcher that is gone."""
    client, session = world.client, 4_711_000_000
    job = await client.submit("ocr_stream", PAUSED_IMAGE, "canceled")
    await world.own.execute(
        "INSERT INTO served_models "
        "(name, version, worker, session, ready, decoupled, max_batch_size, instances, slots, inputs, outputs) "
        "VALUES ('echo', '1', 'lost', $1, true, false, 64, 1, 1, '[]', '[]')",
        session,
    )
    world.moved_jobs.add(parse(ids.Kind.JOB, job))
    await world.own.execute(
        "UPDATE jobs SET status = 'processing', attempt = 1, claim = claim + 1, worker = 'lost', "
        "lease_until = now() + interval '1 hour', started_at = now() WHERE id = $1",
        parse(ids.Kind.JOB, job),
    )
    async with world.database() as database:
        await repeat(lambda: find_beside(database, ["lost"]))
    await world.own.execute("UPDATE jobs SET session = $2 WHERE id = $1", parse(ids.Kind.JOB, job), session)
    await client.wait(job, "queued", "canceled")
    await client.call("POST", f"/v1/jobs/{job}/cancel", 202, 409)
    await client.wait(job, "canceled")


async def suspect(world: World) -> None:
    """Suspected poison jobs, one of them of a paused model."""
    client = world.client
    waiting = await client.submit("ocr_stream", PAUSED_IMAGE, "canceled")
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    due = [await client.submit("tokens", tokens(["a"]), run_at=later, retry=ONCE) for _ in range(3)]
    suspect = parse(ids.Kind.JOB, waiting)
    await world.own.execute("UPDATE jobs SET probation = 30 WHERE id = $1", suspect)
    await world.own.execute(
        "UPDATE jobs SET probation = 30, run_at = now(), scheduled_at = now() WHERE id = ANY($1)",
        [parse(ids.Kind.JOB, each) for each in due],
    )

    async def is_returned() -> bool:
        (row,) = await world.own.fetch("SELECT scheduled_at FROM jobs WHERE id = $1", suspect)
        return row[0] is not None

    await eventually(is_returned, "the suspect is scheduled again", 45)
    await client.call("POST", f"/v1/jobs/{waiting}/cancel", 202, 409)
    for job in due:
        await client.wait(job)


async def repeat_crashes(world: World) -> None:
    """Jobs of a paused model that seem to have stopped Triton again and again. Another one becomes a suspect."""
    client = world.other
    submitted = [await client.submit("ocr_stream", PAUSED_IMAGE, "canceled") for _ in range(4)]
    *crashed, fresh = [parse(ids.Kind.JOB, job) for job in submitted]
    world.moved_jobs.update(crashed)
    await world.own.execute(
        "UPDATE jobs SET attempt = 1, interruptions = 4, probation = 60, started_at = now(), "
        "run_at = now() + interval '1 hour', scheduled_at = now() + interval '1 hour' WHERE id = ANY($1)",
        crashed,
    )

    async def is_suspected() -> bool:
        (row,) = await world.own.fetch("SELECT probation FROM jobs WHERE id = $1", fresh)
        return row[0] is not None

    await eventually(is_suspected, "the fresh job is a suspect", 45)
    for job in submitted:
        await client.call("POST", f"/v1/jobs/{job}/cancel", 202, 409)


async def lose_model(world: World) -> None:
    """A queued job of a model that no Triton has any more."""
    client = world.client
    job = await client.submit("ocr_stream", PAUSED_IMAGE, "failed")
    await world.own.execute("UPDATE jobs SET model = 'ghost' WHERE id = $1", parse(ids.Kind.JOB, job))
    await client.wait(job, "failed")


async def sweep_orphans(world: World) -> None:
    """What a leader does once an hour."""
    async with world.database() as database:
        store = UnneededFileStore(database)
        await repeat(store.find_tenant)
        await repeat(lambda: store.save_tenant(world.removed_id))
        await repeat(lambda: store.begin_pass(0.0))


OLD_LOAD = """
INSERT INTO model_loads (server, name, version, load_id, executions, saved_by, seen_at)
VALUES ('older:1', 'echo', '1', gen_random_uuid(), 7, 'test-worker', $1)
"""


async def know_models(world: World) -> None:
    """Rows of dispatchers and models that are gone."""
    row = (
        "INSERT INTO served_models (name, version, worker, ready, decoupled, max_batch_size, instances, slots, inputs, "
        "outputs, missing_since, updated_at) VALUES ($1, '1', 'old', false, false, 1, 1, 1, '[]', '[]', $2, $3)"
    )
    long_ago = datetime.now(UTC) - timedelta(days=2)
    async with world.database() as database:
        store = ModelStore(database, "test-worker", lambda: None, 1)
        await repeat(lambda: store.save_unloaded({("unloaded", "1"): "no reason"}))
        await world.own.execute("DELETE FROM unloaded_models WHERE worker = 'test-worker'")
        await world.own.execute("INSERT INTO dispatchers VALUES ('older', $1)", long_ago)
        await world.own.execute(OLD_LOAD, long_ago)
        await world.own.execute(row, "echo", None, long_ago)
        await world.own.execute(row, "retired", long_ago, datetime.now(UTC))
        for _ in range(3):
            await repeat(lambda: store.retire_models(600))
        loads = LoadStore(database, "test:1", "test-worker")
        load = uuid4()
        await repeat(lambda: loads.save([LoadToSave(("echo", "1"), load, None, 7)]))
        await repeat(loads.list_all)
        quarantines = QuarantineStore(database)
        await repeat(lambda: quarantines.begin("test:1", {"echo": None}))
        await repeat(lambda: quarantines.save_executions("test:1", {"echo": (1, 7)}))
        await repeat(lambda: quarantines.list_all("test:1"))
        await repeat(lambda: quarantines.claim_reloads("test:1", 0.01, ["echo"]))
        await repeat(lambda: quarantines.save_reloads("test:1", {"echo": None}))
        await repeat(lambda: quarantines.end("test:1", {"echo": 1}))


async def read_rarely(world: World) -> None:
    """What only large responses, restored databases and races need."""
    client = world.client
    job = await client.submit("tokens", tokens(["a"]))
    await client.wait(job)
    batch = [{"model": "echo", "inputs": ECHO, "run_at": (datetime.now(UTC) + timedelta(hours=1)).isoformat()}]
    open_batch = (
        await client.call("POST", "/v1/batches", 202, json=batch, headers={"Idempotency-Key": uuid4().hex})
    ).json()["id"]
    async with world.database() as database:
        job_id = parse(ids.Kind.JOB, job)
        (event, *_) = await world.own.fetch("SELECT id, tenant_id FROM events WHERE job_id = $1", job_id)
        (step,) = await world.own.fetch("SELECT claim, number FROM job_steps WHERE job_id = $1 AND number > 0", job_id)
        assert await repeat(lambda: EventStore(database).read_response(job_id, EventPosition(*step)))
        assert await repeat(lambda: FeedStore(database).read_body(event["id"], event["tenant_id"]))
        assert await repeat(lambda: JobStore(database).find_status(job_id))
        assert await repeat(lambda: input_files.STATEMENTS["has_usable_file"].run(database, files=[]))
        assert await repeat(lambda: BatchStore(database).find_open_job(parse(ids.Kind.BATCH, open_batch)))
    for each in (await client.get("/v1/jobs", batch=open_batch))["items"]:
        await client.call("POST", f"/v1/jobs/{each['id']}/cancel", 202, 409)


async def revoke_reader(world: World) -> None:
    """A key is revoked while it follows a job."""
    job = await world.client.submit("ocr_stream", PAUSED_IMAGE, "canceled")
    while world.loser.list_missing(["gateway/events: find_revoked"]):
        key = (await world.client.call("POST", "/v1/keys", 201, json={"name": "reader", "scopes": ["read"]})).json()
        headers = {"Authorization": f"Bearer {key['key']}", "Accept": "text/event-stream"}
        async with world.client.http.stream("GET", f"/v1/jobs/{job}/events", headers=headers) as response:
            revoked = parse(ids.Kind.KEY, key["id"])
            await world.own.execute("UPDATE api_keys SET revoked_at = now() WHERE id = $1", revoked)
            with contextlib.suppress(httpx.HTTPError):
                async for _ in response.aiter_lines():
                    pass
    await world.client.call("POST", f"/v1/jobs/{job}/cancel", 202, 409)


async def lead(world: World) -> None:
    """A process takes the lease of a role, and ends it."""
    await world.own.execute("INSERT INTO leader_leases (role) VALUES ('test')")
    async with world.database() as database:
        store = LeaseStore(database, "test")
        assert (await repeat(store.acquire)).held
        await repeat(store.release)
        assert await world.own.fetchval("SELECT expires_at < now() FROM leader_leases WHERE role = 'test'")


async def lose_session(world: World) -> None:
    """The connection with the lock of the dispatcher's session ends."""

    async def is_taken_again() -> bool:
        await world.own.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 "
            "AND mode = 'ShareLock'"
        )
        return not world.loser.list_missing(["dispatcher/sessions: lock_session"])

    await eventually(is_taken_again, "the session is locked again", 45)


SCENARIOS: tuple[Any, ...] = (
    remove_old,
    sweep_files,
    lose_dispatcher,
    suspect,
    repeat_crashes,
    lose_model,
    sweep_orphans,
    know_models,
    read_rarely,
    revoke_reader,
    lead,
    lose_session,
)
