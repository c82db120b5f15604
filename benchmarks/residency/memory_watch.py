"""Watches what the models of a Triton take: by the rows of residency, and by its processes."""

import asyncio
import contextlib

import asyncpg

from benchmarks.harness.report import Figures
from tests.support.stacks.sized_models import measure_models

SAMPLE_SECONDS = 0.2
QUERY = "SELECT coalesce(sum(memory) FILTER (WHERE phase <> 'absent'), 0)::bigint FROM residencies"


class MemoryWatch:
    """The largest values since `begin`, in bytes."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._by_rows = self._by_processes = 0

    async def begin(self, database_url: str, triton: int) -> None:
        """Take samples until `end`. `triton` is the process id of the server."""
        self._by_rows = self._by_processes = 0
        self._task = asyncio.create_task(self._run(database_url, triton))

    async def end(self) -> Figures:
        """Return the largest values in MB."""
        assert self._task is not None
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        return {"memory.rows": self._by_rows / 1e6, "memory.processes": self._by_processes / 1e6}

    async def _run(self, database_url: str, triton: int) -> None:
        connection = await asyncpg.connect(database_url)
        try:
            while True:
                self._by_rows = max(self._by_rows, await connection.fetchval(QUERY))
                self._by_processes = max(self._by_processes, await asyncio.to_thread(measure_models, triton))
                await asyncio.sleep(SAMPLE_SECONDS)
        finally:
            await connection.close()
