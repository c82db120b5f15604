"""Looks, through the API, which jobs wait although their model has free slots."""

import asyncio
import contextlib
import time
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import msgspec

from tests.storm.client import Client, NoResponse
from tests.storm.storm_log import SlotSample, StormLog

POLL_SECONDS = 0.5
WAIT_SECONDS = 1.0  # before a job has waited too long


class Reason(msgspec.Struct, frozen=True):
    code: str


class Waiting(msgspec.Struct, frozen=True):
    """The needed fields of a queued job."""

    id: str
    model: str
    attempt: int
    run_at: datetime
    waiting_for: Reason | None


class Page(msgspec.Struct, frozen=True):
    items: list[Waiting]


class Model(msgspec.Struct, frozen=True):
    """The needed fields of a model."""

    name: str
    ready: bool
    slots: int
    running: int


class Models(msgspec.Struct, frozen=True):
    items: list[Model]


async def watch_slots(client: Client, log: StormLog, until: asyncio.Event) -> None:
    """Take samples until `until` is set. There are none while no gateway answers."""
    while not until.is_set():
        with contextlib.suppress(NoResponse):
            log.slot_samples.append(await take_sample(client))
        await asyncio.sleep(POLL_SECONDS)


async def take_sample(client: Client) -> SlotSample:
    """Raises NoResponse."""
    before = datetime.now(UTC) - timedelta(seconds=WAIT_SECONDS)
    path = f"/v1/jobs?status=queued&limit=100&created_before={quote(before.isoformat())}"
    page = await client.read(path, Page, POLL_SECONDS)
    models = await client.read("/v1/models", Models, POLL_SECONDS)
    waiting: dict[str, list[str]] = {}
    for job in page.items:
        # A job that has run before, or has to wait for its time, shows no time since when it could start.
        if job.attempt == 0 and job.run_at <= before and (job.waiting_for is None or job.waiting_for.code == "slot"):
            waiting.setdefault(job.model, []).append(job.id)
    free = {each.name for each in models.items if each.ready and each.running < each.slots}
    return SlotSample(time.time(), waiting, free)
