"""A dispatcher may be killed or stopped in the middle of a job."""

import asyncio
import signal

from deploy.local.stack import Stack
from tests.support.api.api_client import Api
from tests.support.api.model_inputs import work
from tests.support.telemetry.otlp_collector import Collector
from tests.support.telemetry.scraped_metrics import read_metric, wait_for_metric
from tests.support.telemetry.trace_tree import wait_for_tree

RETRY = {"initial_delay": 0}
# Spans that the killed dispatcher had not exported are lost. The one that finds the job adds a span for it.
KILLED = """
SERVER POST /v1/jobs
  CLIENT INSERT jobs
  PRODUCER send charonia.jobs
    INTERNAL queued jobs.work
  INTERNAL lost jobs.work = given_back ! worker_lost
    CLIENT UPDATE jobs
  PRODUCER send charonia.jobs
    INTERNAL queued jobs.work
    CONSUMER process jobs.work = succeeded
      CLIENT infer work
      CLIENT UPDATE jobs
      PRODUCER send charonia.events
        CONSUMER process notifier.events
"""


async def test_job_of_a_killed_dispatcher_completes_in_another_attempt(
    breakable: Stack, api: Api, collector: Collector
) -> None:
    executions = breakable.triton.metrics_url, "work_executions_total"
    submitted = await api.submit("work", work(8000), retry=RETRY)
    await wait_for_metric(*executions, 1, request_id=submitted.id)
    await collector.wait(submitted.trace_id, {"queued jobs.work"})
    dispatcher = breakable.dispatchers[0]
    await asyncio.to_thread(dispatcher.kill)
    assert dispatcher.process.returncode == -signal.SIGKILL
    assert (await api.get(submitted.id)).status == "processing"

    await asyncio.to_thread(dispatcher.start)
    job = await api.wait(submitted.id)
    assert (job.status, job.attempt, job.error, job.output("slept")) == ("succeeded", 1, None, [8000])
    assert await read_metric(*executions, request_id=job.id) == 2
    await wait_for_tree(collector, job.trace_id, KILLED)


async def test_stopping_dispatcher_finishes_its_job_and_others_wait_in_order(breakable: Stack, api: Api) -> None:
    executions = breakable.triton.metrics_url, "work_executions_total"
    submitted = await api.submit("work", work(1000))
    await wait_for_metric(*executions, 1, request_id=submitted.id)
    code = await asyncio.to_thread(breakable.dispatchers[0].stop)
    job = await api.get(submitted.id)
    assert code == 0
    assert (job.status, job.attempt, job.output("slept")) == ("succeeded", 1, [1000])

    waiting = [await api.submit("echo", {"x": [[value]]}) for value in (1.0, 2.0)]
    assert [(await api.get(job.id)).queue_position for job in waiting] == [1, 2]
    await asyncio.to_thread(breakable.dispatchers[0].start)
    jobs = [await api.wait(job.id) for job in waiting]
    assert [(job.status, job.attempt, job.output("y")) for job in jobs] == [
        ("succeeded", 1, [2.0]),
        ("succeeded", 1, [4.0]),
    ]
