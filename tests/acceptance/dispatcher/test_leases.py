"""A lease is short and a job may be long. Heartbeats renew the lease."""

import asyncpg

from common import ids
from deploy.local.stack import Stack
from tests.support.api.api_client import Api
from tests.support.api.model_inputs import work
from tests.support.telemetry.scraped_metrics import read_metric, wait_for_metric
from tests.support.waiting import eventually

LOCKED = 14_000  # ms of a job; it still runs when its row has been locked for three leases
LAPSED_FOR_LONG = "SELECT clock_timestamp() > lease_until + interval '4 seconds' FROM jobs WHERE id = $1"


async def test_jobs_longer_than_their_leases_run_once_although_one_is_locked(stack: Stack, api: Api) -> None:
    """The lease of the locked job lapses. That of the other, which waits in Triton for longer, is renewed."""
    locked = await api.submit("work", work(LOCKED))
    await wait_for_metric(stack.triton.metrics_url, "work_executions_total", 1, request_id=locked.id)
    other = await api.submit("work", work(100))  # Triton runs it after the locked one
    await api.wait(other.id, "processing")
    row, connection = ids.parse(ids.Kind.JOB, locked.id), await asyncpg.connect(stack.postgres.url)
    try:
        async with connection.transaction():
            await connection.execute("SELECT FROM jobs WHERE id = $1 FOR UPDATE", row)

            async def has_lapsed() -> bool:
                return bool(await connection.fetchval(LAPSED_FOR_LONG, row))

            await eventually(has_lapsed, "the lease of the locked job has lapsed for as long as it lasts")
    finally:
        await connection.close()
    for job in (locked, other):
        ended = await api.wait(job.id)
        assert (ended.status, len(await api.list_attempts(job.id))) == ("succeeded", 1)
        assert await read_metric(stack.triton.metrics_url, "work_executions_total", request_id=job.id) == 1
