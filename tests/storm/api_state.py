"""What the API says about the jobs once all of them have ended."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from tests.storm.check_webhooks import find_unexplained_repeats
from tests.storm.client import Client, NotFound
from tests.storm.storm_log import StormLog
from tests.support.api.api_client import TERMINAL, Attempt, Attempts, Job, Jobs
from tests.support.api.api_shapes import SendAttempt, WebhookDelivery

CONCURRENCY = 24  # concurrent reads
POLL_SECONDS = 0.5

T = TypeVar("T")


@dataclass
class ApiState:
    """Jobs and attempts by job id, and attempts to deliver by the ids of doubtful webhooks.

    `steps` has the jobs of the steps of each run that has ended. `left` says what erased jobs still have, by job id.

    `completion_seconds` is the time until every job and its webhooks had ended. `missing` has jobs that do not exist,
    although a response or a webhook named them.
    """

    jobs: dict[str, Job] = field(default_factory=dict)
    steps: dict[str, list[Job]] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    attempts: dict[str, list[Attempt]] = field(default_factory=dict)
    delivery_attempts: dict[str, list[SendAttempt]] = field(default_factory=dict)
    completion_seconds: float = 0.0
    missing: set[str] = field(default_factory=set)


class Inputs(msgspec.Struct, frozen=True):
    """The inputs of a job, None if they were erased."""

    inputs: list[msgspec.Raw] | None


class Listed(msgspec.Struct, frozen=True):
    """A page of anything."""

    items: list[msgspec.Raw]


async def read_all(client: Client, log: StormLog, within: float) -> ApiState:
    """Wait at most `within` seconds until everything has ended. Read all that the checker needs."""
    state = await read_state(client, log.list_jobs, within)
    await add_delivery_attempts(client, state, find_unexplained_repeats(log))
    await add_left(client, state, log.list_erased())
    return state


async def read_state(client: Client, list_jobs: Callable[[], Iterable[str]], within: float) -> ApiState:
    """Wait at most `within` seconds until every job, its steps and its webhooks have ended. Read all of them.

    `list_jobs` may return more jobs later: a webhook reveals a job whose submit had no response.
    """
    state, clock = ApiState(), asyncio.get_running_loop().time
    known: set[str] = set()
    pending: set[str] = set()
    began = clock()

    async def poll(job_id: str) -> None:
        try:
            job = state.jobs[job_id] = await client.read(f"/v1/jobs/{job_id}", Job)
        except NotFound:
            state.missing.add(job_id)
            pending.discard(job_id)
            return
        if job.status in TERMINAL and job.webhook_status != "pending" and await have_steps_ended(job):
            pending.discard(job_id)

    async def have_steps_ended(job: Job) -> bool:
        if job.kind != "pipeline":
            return True
        steps = state.steps[job.id] = (await client.read(f"/v1/jobs?parent={job.id}&limit=1000", Jobs)).items
        return all(step.status in TERMINAL for step in steps)

    async def list_attempts(job_id: str) -> None:
        state.attempts[job_id] = (await client.read(f"/v1/jobs/{job_id}/attempts", Attempts)).items

    while True:
        pending |= {*list_jobs()} - known
        known |= pending
        await for_each(poll, list(pending))
        if not pending or clock() - began > within:
            break
        await asyncio.sleep(POLL_SECONDS)
    state.completion_seconds = clock() - began
    await for_each(list_attempts, [*state.jobs, *(step.id for steps in state.steps.values() for step in steps)])
    return state


async def add_delivery_attempts(client: Client, state: ApiState, deliveries: Iterable[str]) -> None:
    """Read the attempts to deliver these webhooks."""

    async def poll(delivery_id: str) -> None:
        found = await client.read(f"/v1/deliveries/{delivery_id}", WebhookDelivery)
        state.delivery_attempts[delivery_id] = found.attempts

    await for_each(poll, list(deliveries))


async def add_left(client: Client, state: ApiState, jobs: Iterable[str]) -> None:
    """Read what erased jobs still have: inputs, also of their steps, and webhooks."""

    async def look(job_id: str) -> None:
        if (await client.read(f"/v1/jobs/{job_id}/inputs", Inputs)).inputs is not None:
            state.left[job_id] = "inputs"
        elif (await client.read(f"/v1/jobs/{job_id}/deliveries", Listed)).items:
            state.left[job_id] = "webhooks"

    erased = [job_id for job_id in jobs if job_id in state.jobs]
    await for_each(look, [*erased, *(step.id for job_id in erased for step in state.steps.get(job_id, []))])


async def for_each(work: Callable[[T], Awaitable[None]], items: list[T]) -> None:
    """Do the work for all items, a few at a time."""

    async def run() -> None:
        while items:
            await work(items.pop())

    async with asyncio.TaskGroup() as group:
        for _ in range(CONCURRENCY):
            group.create_task(run())
