"""Runs of pipelines, while their dispatcher is killed again and again."""

import asyncio
from collections import Counter

import asyncpg

from deploy.local.stack import Stack
from tests.support.api.api_client import Api, Job
from tests.support.stacks.own_dispatcher import replace_dispatcher
from tests.support.telemetry.scraped_metrics import read_metric
from tests.support.waiting import eventually

RUNS = 12
ROWS = 8  # the largest batch of the model
ENDED = (3, 25, 55, 90)  # jobs of steps that have succeeded, when the dispatcher is killed; there are 120
PIPELINE = {
    "inputs": {"ms": {"datatype": "INT32", "shape": [-1, 1]}},
    "steps": {
        "first": {"model": "work", "inputs": {"ms": "$inputs.ms"}, "retry": {"max_attempts": 5, "initial_delay": 0}},
        "rows": {
            "model": "work",
            "inputs": {"ms": "$first.slept"},
            "for_each": "ms",
            "retry": {"max_attempts": 5, "initial_delay": 0},
        },
        "last": {"model": "work", "inputs": {"ms": "$rows.slept"}, "retry": {"max_attempts": 5, "initial_delay": 0}},
    },
    "outputs": {"slept": "$last.slept"},
}

SUCCEEDED = "SELECT count(*) FROM jobs WHERE step IS NOT NULL AND model = 'work' AND status = 'succeeded'"


async def test_each_job_of_a_step_is_made_once_and_runs_again_only_if_it_was_lost(breakable: Stack, api: Api) -> None:
    stored = await api.http.put("/v1/pipelines/kills", json=PIPELINE)
    assert stored.status_code in (200, 201), stored.text
    async with replace_dispatcher(breakable, CHARONIA_LEASE="4") as dispatcher:
        sent = [[[1 + (row + number) % 20] for row in range(ROWS)] for number in range(RUNS)]
        runs = [await api.submit("kills", {"ms": each}) for each in sent]
        for count in ENDED:
            await wait_for_steps(breakable, count)
            await asyncio.to_thread(dispatcher.kill)
            await asyncio.to_thread(dispatcher.start)
        ended = await asyncio.gather(*(api.wait(run.id, within=90.0) for run in runs))
        for run, given in zip(ended, sent, strict=True):
            assert (run.status, run.error) == ("succeeded", None)
            assert run.output("slept") == [value for row in given for value in row]
            await check_steps(breakable, api, run)


async def wait_for_steps(stack: Stack, count: int) -> None:
    """Return once so many jobs of steps have succeeded."""
    connection = await asyncpg.connect(stack.postgres.url)

    async def poll() -> bool:
        return bool(await connection.fetchval(SUCCEEDED) >= count)

    try:
        await eventually(poll, f"{count} jobs of steps have succeeded")
    finally:
        await connection.close()


async def check_steps(stack: Stack, api: Api, run: Job) -> None:
    """Check that each element of a step has one job, which Triton ran no more often than it had attempts."""
    jobs = await api.list_all_jobs(parent=run.id, limit=100)
    assert Counter(job.step for job in jobs) == {"first": 1, "rows": ROWS, "last": 1}
    assert {job.status for job in jobs} == {"succeeded"}
    for job in jobs:
        executions = await read_metric(stack.triton.metrics_url, "work_executions_total", request_id=job.id)
        assert 1 <= executions <= len(await api.list_attempts(job.id))
