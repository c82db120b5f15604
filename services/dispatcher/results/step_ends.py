"""Writes the ends of steps.

A run may be locked by another dispatcher, and one with `for_each` may have much to join. So such runs have transactions
of their own: one of each run at a time, and few runs at a time. The other runs share transactions.
"""

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID
from weakref import WeakValueDictionary

from common.jobs.end import JobEnd
from common.postgres.batcher import Batcher

RUNS = 4  # at a time, that share no transaction: each takes a connection
LIMIT = 50  # ends in one transaction, which also makes the jobs that follow

Flush = Callable[[list[JobEnd]], Awaitable[list[bool]]]
FlushSome = Callable[[list[JobEnd]], Awaitable[list[bool | None]]]


def measure(end: JobEnd) -> int:
    return len(end.outputs or b"") + len(end.raw_outputs or b"")


class _RunEnds:
    """The ends of the steps of one run. `save` writes some of them, while no others are written."""

    def __init__(self, flush: Flush) -> None:
        lock = asyncio.Lock()

        async def save(ends: list[JobEnd]) -> list[bool]:  # it does not refer to this object, which goes after its use
            async with lock:
                return await flush(ends)

        self.save = save
        self.batcher: Batcher[JobEnd, bool] = Batcher(save, name="step ends of a run", limit=LIMIT, size_of=measure)


class StepEnds:
    """The ends of steps that wait to be written."""

    def __init__(self, flush_light: FlushSome, flush_run: Flush) -> None:
        """`flush_run` writes ends of one run, and `flush_light` those of several.

        Both return which of them were recorded. None is one that `flush_light` leaves to the other.
        """
        self._flush_run = flush_run
        self._light: Batcher[JobEnd, bool | None] = Batcher(flush_light, name="step ends", limit=LIMIT, size_of=measure)
        self._runs: WeakValueDictionary[UUID, _RunEnds] = WeakValueDictionary()  # each lasts while it has ends
        self._carrying = asyncio.Semaphore(RUNS)

    async def submit(self, end: JobEnd) -> bool:
        """Write an end together with others. Return whether it was recorded. Raises as a Batcher does."""
        recorded = None if end.step_index else await self._light.submit(end)
        if recorded is None:
            run = self._find(end)  # the name keeps it
            recorded = await run.batcher.submit(end)
        return recorded

    async def save_alone(self, end: JobEnd) -> bool:
        """Write an end in a transaction of its own. Return whether it was recorded."""
        run = self._find(end)  # the name keeps it
        (recorded,) = await run.save([end])
        return recorded

    def _find(self, end: JobEnd) -> _RunEnds:
        assert end.parent is not None, "it is the end of a step"
        found = self._runs.get(end.parent)
        if found is None:
            self._runs[end.parent] = found = _RunEnds(self._save)
        return found

    async def _save(self, ends: list[JobEnd]) -> list[bool]:
        async with self._carrying:
            return await self._flush_run(ends)
