"""The database of tests refuses what no verb declares."""

from uuid import UUID

import asyncpg
import pytest

from common.job_states import Status
from common.postgres.database import Database
from tests.integration.jobs import look, submit

CANCEL = "UPDATE jobs SET status = 'canceled', generation = 1, finished_at = now() WHERE id = $1"


@pytest.mark.parametrize(("statement", "allowed"), [("cancel_queued", True), ("claim_jobs", False), ("other", False)])
async def test_a_statement_moves_jobs_only_as_its_verb_declares(
    database: Database, tenant: UUID, statement: str, *, allowed: bool
) -> None:
    job = await submit(database, tenant)
    if not allowed:
        with pytest.raises(asyncpg.RaiseError, match=f"{statement} moves a job from queued to canceled"):
            await database.fetch(f"-- {statement}\n{CANCEL}", job)
        return
    await database.fetch(f"-- {statement}\n{CANCEL}", job)
    assert (await look(database, job)).status is Status.CANCELED
