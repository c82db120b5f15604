"""Begins and empties generations of history."""

import contextlib
from typing import NamedTuple
from uuid import UUID

import asyncpg

from common.jobs.keep import keep_jobs
from common.jobs.take_results import remove_twins
from common.postgres import sql
from common.postgres.database import Database
from common.reuse.key import ReuseKey

QUERIES = sql.load("services.dispatcher.maintenance.history")
NIL = UUID(int=0)
KEPT_JOBS = 1000  # of runs, in one statement


class Page(NamedTuple):
    """How many rows were examined, and the last of them."""

    last: tuple[UUID, ...]
    examined: int


class HistoryStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin_next(self, seconds: float) -> int | None:
        """Begin the next generation if the current one is this old and the next is empty. Return its number."""
        with contextlib.suppress(asyncpg.LockNotAvailableError):
            async with self._database.transaction() as connection:
                for record in await connection.fetch(QUERIES["end_current"], seconds):
                    number: int = record["number"]
                    await connection.fetch(QUERIES["empty"], number, 0.0)
                    await connection.execute(QUERIES["begin"], number)
                    return number
        return None

    async def find_old(self, retention: float) -> list[int]:
        """Return the generations that ended `retention` seconds ago and are counted, oldest first."""
        return [record["number"] for record in await self._database.fetch(QUERIES["find_old"], retention)]

    async def keep_for_deliveries(self, number: int, after: tuple[UUID, ...], limit: int) -> Page:
        """Keep what unfinished deliveries need of a generation. Examine at most `limit` deliveries after one."""
        found = await self._database.fetch(QUERIES["keep_for_deliveries"], number, *after, limit)
        for record in found:
            await keep_jobs(self._database, number, record["jobs"])
        return self._read(found)

    async def keep_for_jobs(self, number: int, after: tuple[UUID, ...], limit: int) -> Page:
        """Keep the history of live jobs of a generation. Examine at most `limit` jobs after one."""
        return self._read(await self._database.fetch(QUERIES["keep_for_jobs"], number, *after, limit))

    async def keep_for_runs(self, number: int, after: tuple[UUID, ...], limit: int) -> Page:
        """Keep what live runs need of a generation. Examine at most `limit` runs after one."""
        found = await self._database.fetch(QUERIES["keep_for_runs"], number, *after, limit)
        for record in found:
            jobs = record["jobs"]
            for start in range(0, len(jobs), KEPT_JOBS):
                await keep_jobs(self._database, number, jobs[start : start + KEPT_JOBS])
        return self._read(found)

    async def empty(self, number: int, retention: float) -> bool:
        """Empty a generation. Return False if somebody reads it for longer, or if it is in use again."""
        try:
            (found,) = await self._database.fetch(QUERIES["empty"], number, retention)
        except asyncpg.LockNotAvailableError:
            return False
        emptied: bool = found["emptied"]
        return emptied

    async def release_files(self, after: tuple[UUID, ...], limit: int) -> Page:
        """Let a sweeper delete files whose job is gone. Examine at most `limit` files of jobs after one."""
        for record in await self._database.fetch(QUERIES["release_files"], *after, limit):
            return Page((record["job_id"], record["last"]), record["examined"])
        return Page(after, 0)

    async def remove_twins(self, after: ReuseKey, limit: int) -> tuple[ReuseKey, int] | None:
        """Remove twins whose job is gone. Examine at most `limit` twins after one; None: there are no more."""
        return await remove_twins(self._database, after, limit)

    @staticmethod
    def _read(records: list[asyncpg.Record]) -> Page:
        return Page((records[0]["last"],), records[0]["examined"]) if records else Page((NIL,), 0)
