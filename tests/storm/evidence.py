"""What the API says of the jobs, once they have come to rest."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from tests.acceptance.client import TERMINAL, Attempt, Attempts, Job
from tests.acceptance.shapes import SendAttempt, WebhookDelivery
from tests.storm.client import Client, Missing

READERS = 24  # at a time
POLL_SECONDS = 0.5

T = TypeVar("T")


@dataclass
class Evidence:
    """By job id, and the attempts to send by the ids of webhooks that are in doubt; `rest` is how many seconds it took
    until nothing moved any more."""

    jobs: dict[str, Job] = field(default_factory=dict)
    attempts: dict[str, list[Attempt]] = field(default_factory=dict)
    sendings: dict[str, list[SendAttempt]] = field(default_factory=dict)
    rest: float = 0.0


async def gather(client: Client, list_jobs: Callable[[], Iterable[str]], within: float) -> Evidence:
    """Waits until all jobs are at rest, at most `within` seconds, and reads all there is to know of them.

    `list_jobs` may come to know of more meanwhile: of a submit without an answer, the webhook tells.
    """
    evidence, clock = Evidence(), asyncio.get_running_loop().time
    known: set[str] = set()
    moving: set[str] = set()
    began = clock()

    async def look(job_id: str) -> None:
        try:
            job = evidence.jobs[job_id] = await client.read(f"/v1/jobs/{job_id}", Job)
        except Missing:
            moving.discard(job_id)  # the checker misses it
            return
        if job.status in TERMINAL and job.webhook_status != "pending":
            moving.discard(job_id)

    async def list_attempts(job_id: str) -> None:
        evidence.attempts[job_id] = (await client.read(f"/v1/jobs/{job_id}/attempts", Attempts)).items

    while True:
        moving |= {*list_jobs()} - known
        known |= moving
        await spread(look, list(moving))
        if not moving or clock() - began > within:
            break
        await asyncio.sleep(POLL_SECONDS)
    evidence.rest = clock() - began
    await spread(list_attempts, list(evidence.jobs))
    return evidence


async def add_sendings(client: Client, evidence: Evidence, deliveries: Iterable[str]) -> None:
    """Reads what the notifier says of these webhooks."""

    async def look(delivery_id: str) -> None:
        found = await client.read(f"/v1/deliveries/{delivery_id}", WebhookDelivery)
        evidence.sendings[delivery_id] = found.attempts

    await spread(look, list(deliveries))


async def spread(work: Callable[[T], Awaitable[None]], items: list[T]) -> None:
    """Does the work for all items, a few at a time."""

    async def run() -> None:
        while items:
            await work(items.pop())

    async with asyncio.TaskGroup() as group:
        for _ in range(READERS):
            group.create_task(run())
