"""Adds runs of pipelines. `common.jobs.run` carries them on."""

from collections.abc import Sequence
from uuid import UUID

from common.jobs.input_files import keep_large_inputs
from common.jobs.new_job import NewJob
from common.jobs.submit import JobTimes
from common.postgres import statements
from common.postgres.database import Connection
from common.postgres.statements import Executor

STATEMENTS = statements.load("common.jobs", "submit_run.sql")


async def use_key(executor: Executor, run: NewJob) -> bool:
    """Take the idempotency key of a run, if it has one. Return False if it is in use."""
    if run.idempotency_key is None:
        return True
    found = await STATEMENTS["use_key"].run(
        executor,
        tenant=run.tenant_id,
        key=run.idempotency_key,
        fingerprint=run.fingerprint,
        job=run.id,
        run_at=run.run_at,
        traceparent=run.traceparent,
    )
    return bool(found)


async def add_runs(connection: Connection, runs: Sequence[NewJob], *, wait: bool) -> dict[UUID, JobTimes]:
    """Add runs whose files are locked. Return their times.

    Those that are due must be begun in the same transaction, unless they `wait` for a sweeper.

    Raises LargeInputsLost, so that none is added, if a sweeper has taken a large input.
    """
    found = await STATEMENTS["add_runs"].run(connection, runs=runs, wait=wait)
    added = {record["id"]: JobTimes(record["created_at"], record["run_at"], record["expires_at"]) for record in found}
    await keep_large_inputs(connection, runs, added)
    return added
