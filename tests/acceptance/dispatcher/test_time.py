"""Scheduled jobs do not start early, and expired jobs do not start at all."""

import asyncio
from datetime import UTC, datetime, timedelta

from deploy.local.stack import Stack
from tests.support.api.api_client import Api, Job
from tests.support.api.model_inputs import fault
from tests.support.receivers.webhook_receiver import Receiver
from tests.support.telemetry.otlp_collector import Collector
from tests.support.telemetry.trace_tree import wait_for_tree

SOON = timedelta(seconds=2)  # less than the time between two jobs
SWEPT = timedelta(seconds=10)  # a wake-up would be repeated only after a minute
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


async def test_scheduled_jobs_start_on_time_although_a_dispatcher_was_killed(breakable: Stack, api: Api) -> None:
    delay = timedelta(seconds=10)
    while True:
        submitted = await schedule(api, delay)
        await asyncio.to_thread(breakable.dispatchers[0].kill)
        await asyncio.to_thread(breakable.dispatchers[0].start)
        if datetime.now(UTC) < submitted[0].run_at:
            break
        delay *= 2  # the restart was late: this machine is slow
    await check_start_times(api, submitted)


async def schedule(api: Api, delay: timedelta) -> list[Job]:
    """Submit three jobs, due so far apart that one delay by a busy machine cannot reach two of them."""
    first = datetime.now(UTC).replace(microsecond=0) + delay
    times = [first + index * timedelta(seconds=2.5) for index in range(3)]
    jobs = [await api.submit("echo", {"x": [[1.0]]}, run_at=time.isoformat()) for time in times]
    assert [(job.status, job.run_at) for job in jobs] == [("queued", time) for time in times]
    return jobs


async def check_start_times(api: Api, submitted: list[Job]) -> None:
    """Check that no job started early and that most started on time."""
    jobs = [await api.wait(job.id) for job in submitted]
    assert [(job.status, job.attempt) for job in jobs] == [("succeeded", 1)] * len(jobs)
    delays = sorted(job.started_at - job.run_at for job in jobs if job.started_at)
    assert delays[0] >= timedelta(0)
    assert delays[len(delays) // 2] < SOON


async def test_job_that_waits_too_long_expires_and_sends_a_webhook(
    api: Api, receiver: Receiver, collector: Collector
) -> None:
    inbox = receiver.inbox()
    # The model runs one request at a time and gets two, so a third waits.
    running = [await api.submit("faulty", fault("hang", 5000)) for _ in range(2)]
    for job in running:
        await api.wait(job.id, "processing")
    submitted = await api.submit("faulty", fault("ok"), expires_in=1, webhook={"url": inbox.url})
    assert submitted.expires_at == submitted.created_at + timedelta(seconds=1)

    job = await api.wait(submitted.id)
    assert (job.status, job.attempt, job.started_at, job.outputs) == ("expired", 0, None, None)
    assert submitted.expires_at is not None
    assert job.finished_at is not None
    assert timedelta(0) <= job.finished_at - submitted.expires_at < SWEPT
    (delivery,) = await inbox.wait()
    event = delivery.verify(await api.callback_secret())
    assert (event.type, event.data.id, event.data.status) == ("job.expired", job.id, "expired")
    await wait_for_tree(collector, job.trace_id, EXPIRED)
    assert [(await api.wait(job.id)).status for job in running] == ["succeeded", "succeeded"]
