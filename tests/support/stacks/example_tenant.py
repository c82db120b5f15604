"""A tenant with an hour of work behind it, for the pictures in the docs."""

import asyncio
import base64
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import asyncpg

from common import ids
from deploy.local.stack import Stack
from tests.support.api.api_client import Api, Job
from tests.support.api.model_inputs import fault, picture, work
from tests.support.receivers.threaded_server import Reply
from tests.support.receivers.webhook_receiver import Receiver

HOUR = timedelta(minutes=54)
LONGER = timedelta(minutes=2)  # that some jobs waited and ran
BUSY = 20  # jobs that run or wait: more than the slots
BUSY_MS = 600_000
AWAY = Reply(503, body=b"the shop is being updated")
NO_IMAGE = {"image": {"base64": base64.b64encode(b"%PDF-1.7").decode()}}
MOVE_BACK = """
UPDATE jobs
SET created_at = created_at - back - longer, run_at = run_at - back - longer,
  started_at = started_at - back - longer / 2, finished_at = finished_at - back
FROM unnest($1::uuid[], $2::interval[], $3::interval[]) moved (moved_id, back, longer)
WHERE id = moved_id
"""


@dataclass(frozen=True)
class Example:
    """What the pictures show: a job that was tried twice, and a subscription whose receiver was away for a moment."""

    job: Job
    webhook: str


async def make_example(stack: Stack, api: Api, receiver: Receiver) -> Example:
    """Give a tenant jobs, dead letters, a subscription and jobs that wait. End the last with `stop_waiting`."""
    await move_back(stack, await run_all(api))
    inbox = receiver.inbox(204, 204, AWAY, AWAY, 204, 204, AWAY)
    created = await api.http.post("/v1/webhooks", json={"url": inbox.url, "events": ["job.succeeded", "job.failed"]})
    webhook = created.json()["id"]
    for _ in range(4):
        await api.wait_for_webhooks((await api.run("ocr", picture())).id)
    retry = {"max_attempts": 3, "initial_delay": 0.5}
    job = await api.run("faulty", fault("fail_times", 1), retry=retry, metadata={"order": "A-1042"})
    for _ in range(BUSY):
        await api.submit("work", work(BUSY_MS))
    return Example(await api.wait_for_webhooks(job.id), webhook)


async def run_all(api: Api) -> list[Job]:
    """Run the jobs of the hour, and return them. Some of them fail for good."""
    once = {"retry": {"max_attempts": 1}}
    submitted = [
        *[await api.submit("echo", {"x": [[1, 2.5, number]]}) for number in range(20)],
        *[await api.submit("work", work(20 + number)) for number in range(12)],
        *[await api.submit("ocr", picture()) for _ in range(4)],
        *[await api.submit("ocr", NO_IMAGE) for _ in range(3)],
        *[await api.submit("faulty", fault("unavailable"), **once) for _ in range(3)],
        *[await api.submit("faulty", fault("wrong_shape"), **once) for _ in range(2)],
    ]
    return list(await asyncio.gather(*(api.wait(job.id, within=120) for job in submitted)))


async def move_back(stack: Stack, jobs: Sequence[Job]) -> None:
    """Spread ended jobs over the last hour: those that succeeded mixed, and more of them towards its end."""
    good = [job for job in jobs if job.status == "succeeded"]
    bad = [job for job in jobs if job.status != "succeeded"]
    found = [ids.parse(ids.Kind.JOB, job.id) for job in (*good, *bad)]
    spread = [HOUR * (number * 37 % len(good) / len(good)) ** 1.3 for number in range(len(good))]
    spread += [HOUR * (1 - number / len(bad)) for number in range(len(bad))]
    longer = [LONGER * (number % 4) if job.model == "work" else 0 * LONGER for number, job in enumerate((*good, *bad))]
    connection = await asyncpg.connect(stack.postgres.url)
    try:
        await connection.execute(MOVE_BACK, found, spread, longer)
    finally:
        await connection.close()


async def stop_waiting(api: Api) -> None:
    """Cancel what runs or waits."""
    for status in ("queued", "processing"):
        for job in await api.list_all_jobs(status=status):
            await api.http.post(f"/v1/jobs/{job.id}/cancel")
