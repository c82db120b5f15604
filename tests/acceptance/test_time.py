"""What time decides: not before, and not after."""

import asyncio
from datetime import UTC, datetime, timedelta

from deploy.local.stack import Stack
from tests.acceptance.client import Api, Job
from tests.acceptance.collector import Collector
from tests.acceptance.receiver import Receiver
from tests.acceptance.samples import fault
from tests.acceptance.tree import wait_for_tree

SOON = timedelta(seconds=1)
EXPIRED = """
SERVER POST /v1/jobs
  CLIENT INSERT jobs
  INTERNAL queued jobs.faulty = expired ! expired
    CLIENT UPDATE jobs
    PRODUCER send charonia.events
      CONSUMER process notifier.events
        CLIENT POST webhook
  PRODUCER send charonia.jobs
"""


async def test_scheduled_jobs_start_at_their_time(api: Api) -> None:
    await assert_punctual(api, await schedule(api, timedelta(seconds=1.5)))


async def test_scheduled_jobs_start_at_their_time_though_the_dispatcher_was_killed_before(
    breakable: Stack, api: Api
) -> None:
    submitted = await schedule(api, timedelta(seconds=8))
    await asyncio.to_thread(breakable.dispatchers[0].kill)
    await asyncio.to_thread(breakable.dispatchers[0].start)
    assert datetime.now(UTC) < submitted[0].run_at, "the restart took too long to tell"
    await assert_punctual(api, submitted)


async def schedule(api: Api, delay: timedelta) -> list[Job]:
    """Three jobs, half a second apart."""
    first = datetime.now(UTC).replace(microsecond=0) + delay
    times = [first + index * timedelta(seconds=0.5) for index in range(3)]
    jobs = [await api.submit("echo", {"x": [[1.0]]}, run_at=time.isoformat()) for time in times]
    assert [(job.status, job.run_at) for job in jobs] == [("queued", time) for time in times]
    return jobs


async def assert_punctual(api: Api, submitted: list[Job]) -> None:
    """None started before its time, and most at once then: a hiccup of the machine breaks no promise."""
    jobs = [await api.wait(job.id) for job in submitted]
    assert [(job.status, job.attempt) for job in jobs] == [("succeeded", 1)] * len(jobs)
    late = sorted(job.started_at - job.run_at for job in jobs if job.started_at)
    assert late[0] >= timedelta(0)
    assert late[len(late) // 2] < SOON


async def test_a_job_that_waited_too_long_expires_and_tells_so(
    api: Api, receiver: Receiver, collector: Collector
) -> None:
    inbox = receiver.inbox()
    # The model runs one request at a time and is given two: what comes third has to wait.
    busy = [await api.submit("faulty", fault("hang", 1500)) for _ in range(2)]
    for job in busy:
        await api.wait(job.id, "processing")
    submitted = await api.submit("faulty", fault("ok"), expires_in=1, webhook={"url": inbox.url})
    assert submitted.expires_at == submitted.created_at + timedelta(seconds=1)
    assert (await api.get(submitted.id)).queue_position == 1

    job = await api.wait(submitted.id)
    assert (job.status, job.attempt, job.started_at, job.outputs) == ("expired", 0, None, None)
    assert submitted.expires_at is not None
    assert job.finished_at is not None
    assert timedelta(0) <= job.finished_at - submitted.expires_at < 2 * SOON
    (delivery,) = await inbox.wait()
    event = delivery.verify(await api.callback_secret())
    assert (event.type, event.data.id, event.data.status) == ("job.expired", job.id, "expired")
    await wait_for_tree(collector, job.trace_id, EXPIRED)
    assert [(await api.wait(job.id)).status for job in busy] == ["succeeded", "succeeded"]
