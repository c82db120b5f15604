"""Queues ended jobs again, because a client wants it."""

from collections.abc import Sequence
from uuid import UUID

from common.job_states import Status
from common.jobs.announced import read_wake_up
from common.jobs.moves import Move, Moves
from common.postgres import statements
from common.postgres.statements import Executor
from common.rabbitmq.wake_ups import WakeUp

STATEMENTS = statements.load("common.jobs", "retry.sql")
MOVES = (
    Moves("retry_jobs", [Move(before, Status.QUEUED) for before in (Status.FAILED, Status.CANCELED, Status.EXPIRED)]),
)


async def retry_jobs(
    executor: Executor, tenant_id: UUID, jobs: Sequence[UUID], statuses: Sequence[Status], model: str | None
) -> dict[UUID, WakeUp]:
    """Queue those of a tenant's jobs that have one of these statuses. Return their wake-ups, to be announced."""
    values = {"tenant": tenant_id, "jobs": jobs, "statuses": statuses, "model": model}
    found = await STATEMENTS["retry_jobs"].run(executor, **values)
    return {each["id"]: read_wake_up(each) for each in found}
