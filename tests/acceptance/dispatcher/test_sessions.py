"""A dead dispatcher is noticed long before its leases lapse. One that lives, however slow, keeps them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from deploy.local.services import Service
from deploy.local.stack import Stack
from tests.support.api.api_client import Api, Job
from tests.support.api.model_inputs import work
from tests.support.stacks.own_dispatcher import replace_dispatcher
from tests.support.telemetry.scraped_metrics import read_metric, wait_for_metric
from tests.support.waiting import eventually

LEASE = 30  # as in the queries below
JOBS = 20  # at once on the only dispatcher
SOON = timedelta(seconds=15)  # after the death of a dispatcher and the start of another; by leases it takes at least 20
SETTINGS = {"CHARONIA_LEASE": f"{LEASE}", "CHARONIA_SLOTS": f"{JOBS}"}
RETRY = {"initial_delay": 0}
KEPT_ITS_CONNECTIONS = """
SELECT now() - greatest(pg_postmaster_start_time(), stats_reset) > interval '30 seconds' FROM pg_stat_bgwriter
"""
HALF_OF_THE_LEASE_IS_OVER = (
    "SELECT bool_and(lease_until < now() + interval '15 seconds') FROM jobs WHERE lease_until IS NOT NULL"
)
HELD = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1"


@pytest.fixture
async def dispatcher(breakable: Stack) -> AsyncIterator[Service]:
    """The only dispatcher, with a longer lease, on a server that has run for longer."""
    await wait_for_database(breakable, KEPT_ITS_CONNECTIONS, True)
    async with replace_dispatcher(breakable, **SETTINGS) as dispatcher:
        await wait_for_database(breakable, HELD, 1)
        yield dispatcher


@pytest.fixture
async def second(breakable: Stack, dispatcher: Service) -> AsyncIterator[Service]:
    """Another dispatcher, which the test starts."""
    environment = breakable.environment | SETTINGS
    service = Service("dispatcher", dispatcher.port + 1, environment, breakable.log_dir, name="dispatcher-second")
    yield service
    await asyncio.to_thread(service.stop)


async def wait_for_database(stack: Stack, query: str, answer: object) -> None:
    connection = await asyncpg.connect(stack.postgres.url)

    async def poll() -> bool:
        return bool(await connection.fetchval(query) == answer)

    try:
        await eventually(poll, f"{query} is {answer}", within=LEASE + 20.0)
    finally:
        await connection.close()


async def count_executions(stack: Stack, job: str) -> float:
    return await read_metric(stack.triton.metrics_url, "work_executions_total", request_id=job)


async def kill(dispatcher: Service, api: Api, jobs: Sequence[Job]) -> list[Job]:
    """Kill the dispatcher once all of these jobs have started. Return those that had not ended."""
    await asyncio.gather(*(api.wait(job.id, "processing", "succeeded") for job in jobs))
    await asyncio.to_thread(dispatcher.kill)
    running = [job for job in jobs if (await api.get(job.id)).status == "processing"]
    assert running
    return running


async def check_run_again(api: Api, jobs: Sequence[Job], lost: int) -> None:
    """Check that at least so many of these jobs are soon taken from a dead dispatcher, and that all succeed."""
    latest = datetime.now(UTC) + SOON
    ended = await asyncio.gather(*(api.wait(job.id, within=40.0) for job in jobs))
    assert {(job.status, job.attempt, job.error) for job in ended} == {("succeeded", 1, None)}
    attempts = [each for job in jobs for each in await api.list_attempts(job.id)]
    taken_back = [each.finished_at for each in attempts if each.error_code == "worker_lost"]
    assert sum(at < latest for at in taken_back) >= lost, f"not until {latest}: {taken_back}"


async def test_a_frozen_dispatcher_keeps_its_jobs_and_those_of_a_killed_one_run_again_at_once(
    breakable: Stack, dispatcher: Service, second: Service, api: Api
) -> None:
    await check_kept_while_frozen(breakable, dispatcher, second, api)

    # The second one leads since the freeze. Of the jobs, the first one may run some.
    await wait_for_metric(f"{second.url}/metrics", "charonia_leader", 1, role="maintenance")
    jobs = [await api.submit("work", work(4000), retry=RETRY) for _ in range(8)]
    # The first one must become the leader, which takes the jobs back.
    await check_run_again(api, await kill(second, api, jobs), lost=1)

    jobs = [await api.submit("work", work(2000), retry=RETRY) for _ in range(JOBS)]
    running = await kill(dispatcher, api, jobs)  # now the only one
    await asyncio.to_thread(dispatcher.start)
    await check_run_again(api, running, lost=len(running))


async def check_kept_while_frozen(breakable: Stack, dispatcher: Service, second: Service, api: Api) -> None:
    job = await api.submit("work", work(5000), retry=RETRY)  # it still runs when the dispatcher is frozen
    await wait_for_metric(breakable.triton.metrics_url, "work_executions_total", 1, request_id=job.id)
    await asyncio.to_thread(dispatcher.freeze)
    try:
        await asyncio.to_thread(second.start)
        await wait_for_database(breakable, HALF_OF_THE_LEASE_IS_OVER, True)
    finally:
        await asyncio.to_thread(dispatcher.thaw)
    ended = await api.wait(job.id)
    assert (ended.status, ended.attempt, await count_executions(breakable, job.id)) == ("succeeded", 1, 1)
