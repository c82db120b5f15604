"""The quota of a tenant holds for all of its uploads, whichever gateways receive them."""

import asyncio
from uuid import UUID

import pytest

from common import ids
from common.postgres.database import Database
from services.gateway.files.quota import Quota
from services.gateway.files.store import QUERIES, FileStore, NewUpload
from services.gateway.http.problems import Problem
from tests.integration.waiting import until_blocked

SECONDS = 60.0


async def test_uploads_that_begin_at_once_share_the_quota(database: Database, tenant: UUID) -> None:
    first, second = (NewUpload(ids.new(), tenant, "image/png", 7, None, SECONDS) for _ in range(2))
    async with database.transaction() as other:  # of another gateway
        await other.execute(QUERIES["lock_quota"], tenant)
        await other.execute(QUERIES["begin_upload"], *first, SECONDS, False)
        begun = asyncio.create_task(FileStore(database, Quota(1, 100)).begin_upload(second, SECONDS))
        blocked = asyncio.create_task(until_blocked(database))
        await asyncio.wait([begun, blocked], return_when=asyncio.FIRST_COMPLETED)
        blocked.cancel()
    with pytest.raises(Problem, match="you have 1 files, and may have 1"):
        await begun
