"""Jobs that end, and what is counted of them."""

from typing import Any
from uuid import UUID

from common.job_states import Status
from common.jobs.end import end_jobs
from common.postgres.database import Database
from services.dispatcher.maintenance.usage.store import roll_up
from tests.integration.jobs import claim, new_end
from tests.integration.waiting import until

OUTPUTS = b'[{"name": "y"}]'
USED = "SELECT model, succeeded, failed, bytes_in, bytes_out, inference_seconds FROM usage WHERE tenant_id = $1"


async def end(database: Database, job: UUID, status: Status = Status.SUCCEEDED) -> None:
    succeeded = status is Status.SUCCEEDED
    values: dict[str, Any] = {"inference_ms": 250.0, "outputs": OUTPUTS} if succeeded else {}
    await end_jobs(database, [new_end(await claim(database, job), status, **values)])


async def count_all(database: Database, jobs: int, limit: int = 100) -> None:
    """Roll up until so many ends are counted. A transaction of another database may delay that."""
    counted = 0

    async def is_counted() -> bool:
        nonlocal counted
        counted += sum(each.jobs for each in await roll_up(database, limit))
        return counted >= jobs

    await until(is_counted, "the ends are counted")
    assert counted == jobs


async def list_used(database: Database, tenant: UUID) -> list[tuple[object, ...]]:
    return [tuple(record.values()) for record in await database.fetch(f"{USED} ORDER BY model", tenant)]
