"""Triton may die. Jobs wait for it and lose no attempt."""

import asyncio
from datetime import UTC, datetime

from deploy.local.stack import Stack
from tests.support.api.api_client import Api
from tests.support.api.model_inputs import fault, work
from tests.support.telemetry.scraped_metrics import wait_for_metric
from tests.support.telemetry.service_logs import count_events, wait_for_event


async def test_job_of_a_killed_triton_runs_again_without_using_an_attempt(breakable: Stack, api: Api) -> None:
    executions = breakable.triton.metrics_url, "work_executions_total"
    submitted = await api.submit("work", work(5000), retry={"max_attempts": 1})
    await wait_for_metric(*executions, 1, request_id=submitted.id)
    await asyncio.to_thread(breakable.triton.kill)
    waiting = await api.wait(submitted.id, "queued")
    assert (waiting.attempt, waiting.error and waiting.error.code) == (0, "triton_unavailable")

    await asyncio.to_thread(breakable.triton.start)
    job = await api.wait(submitted.id)
    assert (job.status, job.attempt, job.error, job.output("slept")) == ("succeeded", 1, None, [5000])
    await wait_for_metric(*executions, 1, request_id=submitted.id)


async def test_job_submitted_while_triton_is_down_waits_for_it(breakable: Stack, api: Api) -> None:
    await asyncio.to_thread(breakable.triton.kill)
    submitted = await api.submit("echo", {"x": [[1.0]]}, retry={"max_attempts": 1})
    back = datetime.now(UTC)
    await asyncio.to_thread(breakable.triton.start)
    job = await api.wait(submitted.id)
    assert (job.status, job.attempt, job.output("y")) == ("succeeded", 1, [2.0])
    assert job.started_at is not None
    assert job.started_at > back


async def test_job_that_crashes_its_model_fails_and_other_models_keep_working(breakable: Stack, api: Api) -> None:
    job = await api.run("faulty", fault("kill"), retry={"max_attempts": 1})
    assert (job.status, job.attempt) == ("failed", 1)
    assert job.error is not None
    assert job.error.code == "model_crashed"
    assert (await api.run("echo", {"x": [[1.0]]})).status == "succeeded"
    await asyncio.to_thread(breakable.triton.restart)
    assert (await api.run("faulty", fault("ok"))).status == "succeeded"


async def test_a_dispatcher_reloads_a_model_whose_process_died(supervised: Stack, api: Api) -> None:
    """Triton loads models only for those who have its key."""
    dispatcher = supervised.dispatchers[0]
    before = count_events(dispatcher, "model.reloaded")
    job = await api.run("faulty", fault("kill"), retry={"max_attempts": 1})
    assert job.status == "failed"
    await wait_for_event(dispatcher, "model.reloaded", before)
    assert (await api.run("faulty", fault("ok"))).status == "succeeded"
