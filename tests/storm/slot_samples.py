"""Looks, through the API, which jobs wait although their model has free slots, and which runs stand still."""

import asyncio
import contextlib
import time
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import msgspec

from tests.storm.client import Client, NoResponse
from tests.storm.storm_log import SlotSample, StormLog
from tests.support.api.api_client import TERMINAL

POLL_SECONDS = 0.5
WAIT_SECONDS = 1.0  # before a job has waited too long
RUNS = 6  # of those that run, so many are looked at: the oldest


class Reason(msgspec.Struct, frozen=True):
    code: str


class Listed(msgspec.Struct, frozen=True):
    """The needed fields of a job in a list."""

    id: str
    status: str
    model: str
    attempt: int
    created_at: datetime
    run_at: datetime
    waiting_for: Reason | None
    kind: str = ""


class Page(msgspec.Struct, frozen=True):
    items: list[Listed]


class Model(msgspec.Struct, frozen=True):
    """The needed fields of a model, or of a pipeline, which has no slots."""

    name: str
    ready: bool
    slots: int | None
    running: int | None


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
    queued = await list_jobs(client, f"status=queued&limit=100&created_before={quote(before.isoformat())}")
    running = await list_jobs(client, f"status=processing&limit=100&created_before={quote(before.isoformat())}")
    standing = {job.id for job in queued if job.kind and job.run_at <= before and not is_scheduled(job)}
    waiting: dict[str, list[str]] = {}
    for run in [job for job in running if job.kind][-RUNS:]:
        steps = await list_jobs(client, f"parent={run.id}&limit=1000")
        queued += [job for job in steps if job.status == "queued" and job.created_at <= before]
        if all(job.status in TERMINAL for job in steps):
            standing.add(run.id)
    for job in queued:
        # A job that has run before, or has to wait for its time, shows no time since when it could start.
        if job.attempt == 0 and job.run_at <= before and (job.waiting_for is None or job.waiting_for.code == "slot"):
            waiting.setdefault(job.model, []).append(job.id)
    models = await client.read("/v1/models", Models, POLL_SECONDS)
    free = {each.name for each in models.items if each.ready and (each.running or 0) < (each.slots or 0)}
    return SlotSample(time.time(), waiting, free, frozenset(standing))


async def list_jobs(client: Client, query: str) -> list[Listed]:
    """Raises NoResponse."""
    return (await client.read(f"/v1/jobs?{query}", Page, POLL_SECONDS)).items


def is_scheduled(job: Listed) -> bool:
    return job.waiting_for is not None and job.waiting_for.code == "schedule"
