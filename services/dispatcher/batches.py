"""The end of a batch: once all its jobs have ended, that is told, once. Any instance looks."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

import asyncpg
import msgspec

from common import batch_view, ids, sql, tracing
from common.batch_view import BatchBody, read_batch, read_counts, view_batch
from common.database import Connection, Database, columns
from common.errors import Unavailable
from common.job_view import show_time
from common.logs import Log
from common.outbox import Outbox, OutboxRow, ring_event, spread

QUERIES = sql.load("services.dispatcher", "batches.sql")
LOOK = 1000  # open batches at a time: three look-ups each
BATCH = 50  # completed in one transaction
COMPLETED = "batch.completed"
FIRST = UUID(int=0)
PURGE_SECONDS = 30.0

log = Log("batch")


class Completer:
    """Goes round all open batches, however many there are: how far it has come is kept between two looks."""

    def __init__(self, database: Database, outbox: Outbox, public: str, interval: float) -> None:
        """`interval` in seconds; `public` goes before the paths in a batch's urls."""
        self.database = database
        self.outbox = outbox
        self.public = public
        self.interval = interval
        self.behind = FIRST

    async def run(self) -> None:
        """Looks every `interval` seconds, until cancelled."""
        while True:
            try:
                await self.look()
            except Unavailable as error:
                log.warning("batch.look_waits", error=error)
            await asyncio.sleep(self.interval)

    async def look(self) -> int:
        """Completes those of the next open batches whose jobs have all ended; how many."""
        found = await self.database.fetch(QUERIES["find_batches"], self.behind, LOOK)
        done = [record["id"] for record in found if record["done"]]
        completed = 0
        for start in range(0, len(done), BATCH):
            completed += await self.complete(done[start : start + BATCH])
        self.behind = found[-1]["id"] if len(found) == LOOK else FIRST
        return completed

    async def complete(self, batches: Sequence[UUID]) -> int:
        """Those that another instance does not complete at this moment, nor has completed."""
        async with self.database.transaction() as connection:
            locked = await connection.fetch(QUERIES["lock_batches"], batches)
            messages = await self.tell(connection, locked) if locked else []
        self.outbox.announce(messages)
        for record in locked:
            log.info(
                "batch.completed",
                batch_id=ids.show(ids.Kind.BATCH, record["id"]),
                accepted=record["accepted"],
                tenant=ids.show(ids.Kind.TENANT, record["tenant_id"]),
                trace_id=tracing.trace_id(record["traceparent"]),
            )
        return len(locked)

    async def tell(self, connection: Connection, locked: Sequence[asyncpg.Record]) -> list[OutboxRow]:
        """The doorbells, to be announced after the commit."""
        found = await connection.fetch(batch_view.QUERIES["count_jobs"], [record["id"] for record in locked])
        counts, rows, messages = read_counts(found), [], []
        for record in locked:
            row, event_id = read_batch(dict(record)), ids.new()
            body = BatchBody(COMPLETED, show_time(record["now"]), view_batch(row, counts.get(row.id, {}), self.public))
            message = ring_event(event_id, COMPLETED, record["traceparent"])
            told = (event_id, COMPLETED, msgspec.json.encode(body), message.traceparent)
            rows.append((row.id, row.finished_at, *told, *spread(message)[:4]))
            messages.append(message)
        await connection.execute(QUERIES["complete_batches"], *columns(rows, 10))
        return messages


async def purge(database: Database, retention: float) -> None:
    """Removes batches older than `retention` (seconds) once their jobs are gone, until cancelled."""
    while True:
        try:
            while len(await database.fetch(QUERIES["purge_batches"], retention, BATCH)) == BATCH:
                pass
        except Unavailable as error:
            log.warning("batch.purge_waits", error=error)
        await asyncio.sleep(PURGE_SECONDS)
