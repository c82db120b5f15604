"""A busy stack loses its database and its broker. Its services go on with a dump, restored by the guide."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
import pytest

from common import ids
from deploy.local.settings import Settings
from deploy.local.stack import Stack
from tests.acceptance.conftest import ENVIRONMENT, open_client
from tests.support.api.api_client import Api, Job, read
from tests.support.api.api_shapes import Subscription
from tests.support.api.batches import echo, submit_batch, wait_for_batch
from tests.support.api.input_files import upload_file
from tests.support.api.model_inputs import work
from tests.support.receivers.webhook_receiver import Delivery, Receiver
from tests.support.stacks.broker_connection import wait_for_broker
from tests.support.stacks.guest_stack import GuestStack
from tests.support.stacks.key_command import make_key
from tests.support.stacks.restored_stack import (
    make_successor,
    read_commands,
    run_command,
    run_commands,
    start_empty_servers,
)
from tests.support.waiting import eventually

OWN = {
    "CHARONIA_DELIVERY_SCHEDULE": "0,8,3,3",  # a second attempt after the freeze of the notifier
    "CHARONIA_INLINE_INPUT_BYTES": "1024",  # so that a small array becomes a file
    "CHARONIA_INLINE_OUTPUT_BYTES": "1024",
}
INPUTS = {"x": [[1.0]]}
LARGE = {"x": [[float(number) for number in range(2000)]]}
SCHEDULED = timedelta(seconds=15)
SOON = 40.0  # seconds
OLD = 2 * 86400  # seconds
# The old server has greater ids of transactions than the new one will have, as a server that ran for long.
USE_TRANSACTION_IDS = """
DO $$ BEGIN FOR number IN 1..20000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$
"""
AGE_FILES = "UPDATE files SET created_at = created_at - interval '2 hours'"


class Backlog(NamedTuple):
    """What a tenant had at the time of the dump."""

    subscription: Subscription
    jobs: dict[str, str]  # their ids by what they are
    batch: str
    deleted_file: str

    @property
    def secret(self) -> str:
        assert self.subscription.secret is not None
        return self.subscription.secret


class Lost(NamedTuple):
    """What came after the dump, so that the restored services do not know it."""

    job: str
    uploaded_file: str
    known_jobs: set[str]  # without the lost one


@pytest.fixture
async def stacks(stack: Stack, tmp_path: Path) -> AsyncIterator[tuple[Stack, Stack]]:
    """A running stack, and one with empty servers that can take its place."""
    settings = Settings.private(tmp_path / "old")
    old = GuestStack(stack, replace(settings, environment=ENVIRONMENT | OWN))
    new = make_successor(old, tmp_path / "new")
    try:
        await asyncio.to_thread(old.start)
        await asyncio.to_thread(old.postgres.query, USE_TRANSACTION_IDS)
        await asyncio.to_thread(wait_for_broker, *old.gateways)
        yield old, new
    finally:
        for each in (old, new):
            await asyncio.to_thread(each.stop)
            await asyncio.to_thread(each.postgres.delete)


async def test_services_go_on_after_a_restore_into_an_empty_server(
    stacks: tuple[Stack, Stack], receiver: Receiver, tmp_path: Path
) -> None:
    """Webhooks of the dump keep their ids. Jobs of the dump end once, whatever became of them after it."""
    old, new = stacks
    subscribed, callback = receiver.inbox(), receiver.inbox(503)
    key = await make_key(old, "backed-up")
    async with open_client(old, key) as api:
        backlog = await leave_backlog(old, api, subscribed.url, callback.url)
        sent = len(subscribed.deliveries), len(callback.deliveries)
        await asyncio.to_thread(run_commands, "Dump the database", old, tmp_path)
        lost = await live_on(old, api, backlog)
        callback_secret = await api.callback_secret()
    await asyncio.to_thread(old.stop)
    before = name_jobs(subscribed.deliveries[sent[0] :], backlog.secret)
    callbacks_before = name_jobs(callback.deliveries[sent[1] :], callback_secret)
    sent = len(subscribed.deliveries), len(callback.deliveries)
    assert len(before) == len(lost.known_jobs) - 2  # the two that were sent before, and not the lost one

    await restore(new, tmp_path)
    async with open_client(new, key) as api:
        await check_jobs(api, backlog, lost)
        after = name_jobs(subscribed.deliveries[sent[0] :], backlog.secret)
        assert Counter(after.values()) == dict.fromkeys(lost.known_jobs - pick(backlog, "early", "large", "refused"), 1)
        assert select(after, backlog, "late") == select(before, backlog, "late")
        assert name_jobs(callback.deliveries[sent[1] :], callback_secret) == callbacks_before
        assert [*callbacks_before.values()] == [backlog.jobs["refused"]]
        await check_new_jobs(api, backlog, lost)
        await check_large_output(api, backlog.jobs["large"])
        await check_files(api, new, tmp_path, backlog.deleted_file, lost.uploaded_file)


async def leave_backlog(stack: Stack, api: Api, subscribed: str, callback: str) -> Backlog:
    """Leave jobs that ended, run, wait and are scheduled, a batch, webhooks that wait for their attempts, and files."""
    response = await api.http.post("/v1/webhooks", json={"url": subscribed, "events": ["job.succeeded"]})
    early, large = await api.run("echo", INPUTS), await api.run("echo", LARGE)
    for job in (early, large):
        await api.wait_for_webhooks(job.id)
    await wait_for_usage(api, 2)
    refused = await api.run("echo", INPUTS, webhook={"url": callback, "events": ["job.succeeded"]})
    await wait_for_attempts(api, refused)
    stack.notifiers[0].freeze()
    late = await api.run("echo", INPUTS)
    running = await api.submit("work", work(7000))
    await api.wait(running.id, "processing")
    file = {"x": {"file": await upload_file(api, bytes(8)), "shape": [1, 2]}}
    jobs = {
        "early": early,
        "large": large,
        "refused": refused,
        "late": late,
        "running": running,
        "queued": await api.submit("work", work(200)),
        "named": read(await submit_named(api), 202, Job),
        "scheduled": await api.submit("echo", file, run_at=(datetime.now(UTC) + SCHEDULED).isoformat()),
    }
    batch = await submit_batch(api, [{"model": "work", "inputs": work(100)}, echo(1), echo(2)])
    return Backlog(
        subscription=read(response, 201, Subscription),
        jobs={name: job.id for name, job in jobs.items()},
        batch=batch.id,
        deleted_file=await upload_file(api, b"deleted after the dump"),
    )


async def wait_for_attempts(api: Api, job: Job) -> None:
    """Return once the job's two webhooks were attempted, and the callback failed."""

    async def are_recorded() -> bool:
        deliveries = await api.list_all_deliveries(job.urls.self)
        return sorted(code or 0 for each in deliveries for code, _ in each.results) == [204, 503]

    await eventually(are_recorded, "both attempts are recorded")


async def submit_named(api: Api) -> httpx.Response:
    request = {"model": "work", "inputs": work(200)}
    return await api.http.post("/v1/jobs", json=request, headers={"Idempotency-Key": "the-order"})


async def live_on(stack: Stack, api: Api, backlog: Backlog) -> Lost:
    """Let all jobs end and all webhooks arrive. Then the dump is out of date in every respect."""
    stack.notifiers[0].thaw()
    new = await api.submit("echo", INPUTS)
    await wait_for_batch(api, backlog.batch)
    for job_id in (*backlog.jobs.values(), new.id):
        await api.wait(job_id, within=SOON)
    jobs = {job.id for job in await api.list_all_jobs()}
    for job_id in jobs:
        await api.wait_for_webhooks(job_id)
    await delete_file(stack, api, backlog.deleted_file)
    return Lost(new.id, await upload_file(api, b"uploaded after the dump"), jobs - {new.id})


async def delete_file(stack: Stack, api: Api, file_id: str) -> None:
    """Delete a file and return once its object is gone, too."""
    assert (await api.http.delete(f"/v1/files/{file_id}")).status_code == 204

    async def is_gone() -> bool:
        return str(ids.parse(ids.Kind.FILE, file_id)) not in {file.parent.name for file in list_objects(stack)}

    await eventually(is_gone, f"the object of {file_id} is gone", SOON)


async def restore(stack: Stack, folder: Path) -> None:
    await asyncio.to_thread(start_empty_servers, stack)
    await asyncio.to_thread(run_commands, "Restore", stack, folder)
    await asyncio.to_thread(stack.start_services)
    await asyncio.to_thread(wait_for_broker, *stack.gateways)


def name_jobs(deliveries: list[Delivery], secret: str) -> dict[str, str]:
    """Return the job of each webhook-id. Fail if one came twice, or was signed with another secret."""
    found = {each.id: each.verify(secret).data.id for each in deliveries}
    assert len(found) == len(deliveries)
    return found


def pick(backlog: Backlog, *names: str) -> set[str]:
    return {backlog.jobs[name] for name in names}


def select(webhooks: dict[str, str], backlog: Backlog, *names: str) -> dict[str, str]:
    """Return the webhooks of these jobs."""
    return {id_: job_id for id_, job_id in webhooks.items() if job_id in pick(backlog, *names)}


async def check_jobs(api: Api, backlog: Backlog, lost: Lost) -> None:
    """Each job of the dump ends, and ends once."""
    for job_id in lost.known_jobs:
        assert (await api.wait(job_id, within=SOON)).status == "succeeded"
        await api.wait_for_webhooks(job_id)
    assert (await wait_for_batch(api, backlog.batch)).counts["succeeded"] == 3
    assert Counter(await list_ends(api, lost.known_jobs)) == dict.fromkeys(lost.known_jobs, 1)
    assert (await api.http.get(f"/v1/jobs/{lost.job}")).status_code == 404


async def check_new_jobs(api: Api, backlog: Backlog, lost: Lost) -> None:
    """Idempotency keys still name their jobs, ids are new, and usage counts every end once."""
    repeated = await submit_named(api)
    assert (read(repeated, 202, Job).id, repeated.headers["idempotency-replayed"]) == (backlog.jobs["named"], "true")
    new = {(await api.run("echo", INPUTS)).id for _ in range(5)}
    assert not new & (lost.known_jobs | {lost.job})
    assert set((await list_ends(api, new))[-5:]) == new  # the feed goes on after the events of the dump

    await wait_for_usage(api, len(lost.known_jobs | new))


async def wait_for_usage(api: Api, jobs: int) -> None:
    """Return once this many ends of jobs are counted."""

    async def is_counted() -> bool:
        items = (await api.http.get("/v1/usage")).json()["items"]
        return sum(sum(item["jobs"].values()) for item in items) == jobs

    await eventually(is_counted, f"{jobs} jobs are counted")


async def list_ends(api: Api, jobs: set[str]) -> list[str]:
    """Return the jobs of the feed's ends, once these are among them: it has none newer than a transaction under way."""

    async def poll() -> list[str] | None:
        found: list[str] = []
        page: dict[str, Any] = {"has_more": True, "next_after": ""}
        while page["has_more"]:
            query = {"types": "job.succeeded", "after": page["next_after"]}
            page = (await api.http.get("/v1/events", params=query)).raise_for_status().json()
            found += [each["data"]["id"] for each in page["items"]]
        return found if jobs <= {*found} else None

    return await eventually(poll, "the ends of all jobs are in the feed")


async def check_large_output(api: Api, job_id: str) -> None:
    (output,) = (await api.get(job_id)).outputs or []
    assert output.download_url is not None
    content = await api.http.get(output.download_url)
    assert (content.status_code, len(content.content)) == (200, output.size)


async def check_files(api: Api, stack: Stack, folder: Path, deleted: str, uploaded: str) -> None:
    """The commands of the guide find what does not fit together and is old enough, and mend it."""
    look, mend = read_commands("Compare the object store")
    await asyncio.to_thread(age_files, stack)
    code, told = await asyncio.to_thread(run_command, look, stack, folder)
    found = [line.split(": ")[0] for line in told.splitlines() if deleted in line or uploaded in line]
    assert (code, sorted(found)) == (1, ["file without its object", "object without a file"]), told
    assert "Findings: 2. Mended: 0." in told
    code, told = await asyncio.to_thread(run_command, mend, stack, folder)
    assert (code, "Findings: 2. Mended: 2." in told) == (1, True), told
    assert (await api.http.get(f"/v1/files/{deleted}")).status_code == 404
    assert (await asyncio.to_thread(run_command, look, stack, folder))[0] == 0


def age_files(stack: Stack) -> None:
    """Make all objects and all files older."""
    then = time.time() - OLD
    for file in list_objects(stack):
        os.utime(file, (then, then))
    stack.postgres.query(AGE_FILES, "charonia")


def list_objects(stack: Stack) -> list[Path]:
    store = Path(urlsplit(stack.environment["CHARONIA_STORE_URL"]).path)
    return [file for file in store.rglob("*") if file.is_file()]
