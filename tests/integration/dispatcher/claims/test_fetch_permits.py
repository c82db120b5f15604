"""Jobs of a tenant stay queued while another of them waits for a permit to fetch."""

import asyncio
from uuid import UUID

import pytest

from common.postgres.database import Database
from services.dispatcher.claims.fetch_permits import FetchParty
from tests.integration.dispatcher.claims.test_limits import Dispatcher, limit
from tests.integration.jobs import add_tenant, submit
from tests.integration.waiting import until


@pytest.mark.parametrize("limited", [False, True])
async def test_claims_leave_the_jobs_of_a_tenant_that_waits(database: Database, tenant: UUID, limited: bool) -> None:
    if limited:
        await limit(database, running=100)
    other, dispatcher = await add_tenant(database, "other"), Dispatcher(database)
    permits, party = dispatcher.claims.fetch_permits, FetchParty("echo", tenant)
    for owner in (tenant, tenant, other):
        await submit(database, owner)
    await permits.acquire(party, 1)
    waiting = asyncio.create_task(permits.acquire(party, 1))
    await asyncio.sleep(0)
    assert [job.tenant_id for job in await dispatcher.claim(3)] == [other]
    permits.release(party)
    await waiting
    await until(lambda: len(dispatcher.wake_ups) == 1, "the next job is announced")
    permits.release(party)
    await until(lambda: len(dispatcher.wake_ups) == 2, "the job after it is announced too")
    assert [job.tenant_id for job in await dispatcher.claim(3)] == [tenant, tenant]
