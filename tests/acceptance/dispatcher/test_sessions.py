"""A dead dispatcher is noticed long before its leases lapse. One that lives, however slow, keeps them."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from deploy.local.services import Service
from deploy.local.stack import Stack
from tests.support.api_client import Api
from tests.support.model_inputs import work
from tests.support.own_dispatcher import replace_dispatcher
from tests.support.scraped_metrics import read_metric, wait_for_metric
from tests.support.waiting import eventually

LEASE = 12  # as in the query below
JOBS = 20  # at once on the only dispatcher
SOON = 8.0  # seconds after the death of the only dispatcher, with the start of another
SETTINGS = {"CHARONIA_LEASE": f"{LEASE}", "CHARONIA_SLOTS": f"{JOBS}"}
RETRY = {"initial_delay": 0}
KEPT_ITS_CONNECTIONS = """
SELECT now() - greatest(pg_postmaster_start_time(), stats_reset) > interval '12 seconds' FROM pg_stat_bgwriter
"""
LEASE_ALMOST_OVER = (
    "SELECT bool_and(lease_until < now() + interval '3 seconds') FROM jobs WHERE lease_until IS NOT NULL"
)
HELD = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1"


@pytest.fixture
async def dispatcher(breakable: Stack) -> AsyncIterator[Service]:
    """The only dispatcher, with a longer lease, on a server that has run for longer."""
    await wait_for_database(breakable, KEPT_ITS_CONNECTIONS, "t")
    async with replace_dispatcher(breakable, **SETTINGS) as dispatcher:
        await wait_for_database(breakable, HELD, "1")
        yield dispatcher


@pytest.fixture
async def second(breakable: Stack, dispatcher: Service) -> AsyncIterator[Service]:
    """Another dispatcher, which the test starts."""
    environment = breakable.environment | SETTINGS
    service = Service("dispatcher", dispatcher.port + 1, environment, breakable.log_dir, name="dispatcher-second")
    yield service
    await asyncio.to_thread(service.stop)


async def wait_for_database(stack: Stack, query: str, answer: str) -> None:
    async def poll() -> bool:
        return await asyncio.to_thread(stack.postgres.query, query, "charonia") == answer

    await eventually(poll, f"{query} is {answer}", within=LEASE + 20.0)


async def count_executions(stack: Stack, job: str) -> float:
    return await read_metric(stack.triton.metrics_url, "work_executions_total", request_id=job)


async def test_jobs_of_a_killed_dispatcher_run_again_at_once(breakable: Stack, dispatcher: Service, api: Api) -> None:
    jobs = [await api.submit("work", work(500), retry=RETRY) for _ in range(JOBS)]
    await asyncio.gather(*(api.wait(job.id, "processing", "succeeded") for job in jobs))
    await asyncio.to_thread(dispatcher.kill)
    running = [job.id for job in jobs if (await api.get(job.id)).status == "processing"]
    assert running
    dispatcher.launch()
    ended = await asyncio.gather(*(api.wait(job, within=SOON) for job in running))
    assert {(job.status, job.attempt, job.error) for job in ended} == {("succeeded", 1, None)}


async def test_a_frozen_dispatcher_keeps_its_jobs(
    breakable: Stack, dispatcher: Service, second: Service, api: Api
) -> None:
    job = await api.submit("work", work(1000), retry=RETRY)
    await wait_for_metric(breakable.triton.metrics_url, "work_executions_total", 1, request_id=job.id)
    await asyncio.to_thread(dispatcher.freeze)
    try:
        await asyncio.to_thread(second.start)
        await wait_for_database(breakable, LEASE_ALMOST_OVER, "t")
    finally:
        await asyncio.to_thread(dispatcher.thaw)
    ended = await api.wait(job.id)
    assert (ended.status, ended.attempt, await count_executions(breakable, job.id)) == ("succeeded", 1, 1)


async def test_a_restart_of_the_database_takes_no_job_from_its_dispatcher(
    breakable: Stack, dispatcher: Service, second: Service, api: Api
) -> None:
    await asyncio.to_thread(second.start)
    await wait_for_database(breakable, HELD, "2")
    jobs = [await api.submit("work", work(4000), retry=RETRY) for _ in range(8)]
    await asyncio.gather(*(api.wait(job.id, "processing") for job in jobs))
    await asyncio.to_thread(breakable.postgres.restart)
    for job in jobs:
        ended = await api.wait(job.id)
        assert (ended.status, ended.attempt, await count_executions(breakable, job.id)) == ("succeeded", 1, 1)
