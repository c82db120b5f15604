"""Services bear what those of a later release do beside them during an upgrade."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import aio_pika
import asyncpg
import pytest

from common import ids
from common.rabbitmq import topology
from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.settings import Settings
from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api.api_client import Api
from tests.support.database import later_release
from tests.support.load import Load
from tests.support.receivers.webhook_receiver import Receiver
from tests.support.stacks.broker_connection import wait_for_broker
from tests.support.stacks.guest_stack import GuestStack
from tests.support.stacks.key_command import make_key
from tests.support.telemetry.scraped_metrics import wait_for_metric
from tests.support.telemetry.service_logs import count_events, wait_for_event
from tests.support.waiting import eventually

CLIENTS = 6
UNKNOWN = b'{"type":"job.paused/1"}'
EXCHANGES = {  # with the kind of service that gets the messages
    topology.JOBS_EXCHANGE: "dispatcher",
    topology.CONTROL_EXCHANGE: "dispatcher",
    topology.EVENTS_EXCHANGE: "notifier",
    topology.CHANGES_EXCHANGE: "gateway",
}
ENVIRONMENT = {"CHARONIA_LOG_FORMAT": "json", "CHARONIA_LEASE": "2"}


@pytest.fixture(scope="module")
def old(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The services of this release, with a database that a later one migrates."""
    old = GuestStack(stack, replace(Settings.private(tmp_path_factory.mktemp("old")), environment=ENVIRONMENT))
    try:
        with old:
            wait_for_broker(*old.gateways)
            yield old
    finally:
        old.postgres.delete()


async def send_unknown(stack: Stack) -> None:
    """Send a message of a kind that no service knows over each exchange."""
    connection = await aio_pika.connect(stack.environment["CHARONIA_AMQP_URL"])
    async with connection:
        channel = await connection.channel()
        for name in EXCHANGES:
            exchange = await channel.get_exchange(name, ensure=False)
            await exchange.publish(aio_pika.Message(UNKNOWN), "job.normal.echo")


async def read_json(api: Api, path: str) -> Any:
    return (await api.http.get(path)).raise_for_status().json()


async def is_given_back(api: Api, job_id: str) -> bool:
    job = await read_json(api, f"/v1/jobs/{job_id}")
    return job["error"] is not None and (job["error"]["code"], job["attempt"]) == ("newer_format", 0)


async def check_unknown(stack: Stack) -> None:
    """Return once every service has acknowledged the messages that it does not know."""
    for service in stack.services:
        expected = [*EXCHANGES.values()].count(service.kind)
        await wait_for_metric(f"{service.url}/metrics", "charonia_messages_unknown_total", expected)


async def check_views(api: Api, paused: str, lost: str, newer: str) -> None:
    """Check what the gateway shows."""
    listed = {job["id"]: job for job in (await read_json(api, "/v1/jobs?limit=1000"))["items"]}
    assert (listed[paused]["status"], listed[lost]["priority"]) == ("paused", "urgent")
    assert (await read_json(api, f"/v1/jobs/{newer}/inputs"))["inputs_omitted"] == "newer_format"
    assert "later" not in [model["name"] for model in (await read_json(api, "/v1/models"))["items"]]


async def inject(stack: Stack, paused: str, lost: str, newer: str) -> None:
    """Migrate, and write what services of the later release write. The three jobs wait for a time until now."""
    settings = {"deadlock_timeout": "1min"}  # so that a deadlock ends the statement of a service
    owner = await asyncpg.connect(stack.postgres.url, server_settings=settings)
    for migration in (later_release.ALLOW_MORE, later_release.ALLOW_MORE_SCOPES, *later_release.ADD_COLUMNS):
        await owner.execute(migration)
    await owner.execute(later_release.ADD_SCOPES)
    await owner.execute(later_release.SERVE_NEWER)
    await owner.execute(later_release.PAUSE, ids.parse(ids.Kind.JOB, paused))
    await owner.execute(later_release.LOSE, ids.parse(ids.Kind.JOB, lost))
    await owner.execute(later_release.REPLACE_INPUTS, ids.parse(ids.Kind.JOB, newer), later_release.NEWER_INPUTS[0])
    await owner.close()
    await send_unknown(stack)


async def test_what_a_later_release_does_stops_nothing(old: Stack, own_receiver: Receiver) -> None:
    key, pids = await make_key(old, "granted"), [service.process.pid for service in old.services]
    (dispatcher,), run_at = old.dispatchers, (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    async with (
        open_client(old, DEVELOPMENT_KEY) as api,
        open_client(old, key) as granted,
        asyncio.TaskGroup() as group,
    ):
        load = Load(api, own_receiver.inbox(), CLIENTS)
        group.create_task(load.run())
        await load.wait_for_jobs(CLIENTS)
        paused, lost, newer = [(await api.submit("echo", {"x": [[1.0]]}, run_at=run_at)).id for _ in range(3)]
        await inject(old, paused, lost, newer)
        await check_unknown(old)
        await eventually(lambda: is_given_back(api, newer), "the job with newer inputs is given back")
        await wait_for_event(dispatcher, "job.unreadable", after=1)  # the leader left out the other two
        await load.wait_for_jobs(CLIENTS)
        await check_views(api, paused, lost, newer)
        assert (await read_json(granted, "/v1/jobs"))["items"] == []
        load.stop()
    assert {(job.status, job.attempt) for job in load.ended} == {("succeeded", 1)}
    assert [service.process.pid for service in old.services if service.process.running] == pids
    events = ("leader.loop_failed", "job.task_failed", "message.rejected")
    assert [count_events(service, event) for service in old.services for event in events] == [0] * 9
