"""Erasing what a client gave and got with a job. The row of the job stays, with its state and its times."""

import asyncio
from http import HTTPStatus
from uuid import UUID

from common import sql
from common.database import Connection, Database
from common.jobs import TERMINAL
from services.gateway.control_store import ControlStore
from services.gateway.errors import LATER, Problem, conflict, not_found

QUERIES = sql.load("services.gateway", "erasure.sql")
PATIENCE_SECONDS = 5.0  # for webhooks under way to arrive
PAUSE_SECONDS = 0.1


class Eraser:
    def __init__(self, database: Database, patience: float = PATIENCE_SECONDS) -> None:
        self.database = database
        self.store = ControlStore(database)
        self.patience = patience

    async def erase(self, tenant_id: UUID, job_id: UUID) -> bool:
        """Whether there was something to erase; nothing of it is sent from then on.

        Raises Problem: 404, or 409 for a job that has not ended, or whose webhook is being sent for long.
        """
        deadline = asyncio.get_running_loop().time() + self.patience
        while True:
            erased = await self.try_once(tenant_id, job_id)
            if erased is not None:
                return erased
            if asyncio.get_running_loop().time() >= deadline:
                text = "a webhook of the job is being sent; try again soon"
                raise Problem(HTTPStatus.CONFLICT, "conflict", text, headers=LATER)
            await asyncio.sleep(PAUSE_SECONDS)

    async def try_once(self, tenant_id: UUID, job_id: UUID) -> bool | None:
        """None, and nothing done, while a webhook is under way."""
        async with self.database.transaction() as connection:
            found = await self.store.lock_job(connection, job_id, tenant_id)
            if found is None:
                raise not_found("job")
            if found.row.status not in TERMINAL:
                raise conflict(f"the job is {found.row.status}; cancel it, or wait until it has ended")
            if found.erased:
                return False
            events = await self.lock_events(connection, job_id)
            if await connection.fetchval(QUERIES["is_under_way"], job_id, events):
                return None
            await connection.execute(QUERIES["erase_job"], job_id, events)
        return True

    async def lock_events(self, connection: Connection, job_id: UUID) -> list[UUID]:
        """All that was told of the job, held with its deliveries: events first and then endpoints, as notifiers do."""
        events = [record["id"] for record in await connection.fetch(QUERIES["lock_job_events"], job_id)]
        await connection.execute(QUERIES["lock_event_endpoints"], events)
        return events
