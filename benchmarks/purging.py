"""`python -m benchmarks.purging <database url> <retention>`: removes old jobs as a dispatcher does, when asked to."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.driver import Answering, serve
from common.database import Database
from services.dispatcher import purge
from services.dispatcher.store import OLDEST, Bite, Mark, Store


class TimedStore(Store):
    """Keeps how long each statement took, in milliseconds, and what it removed."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.times: list[float] = []
        self.removed = 0

    async def purge_jobs(self, age: float, limit: int, after: Mark = OLDEST) -> Bite:
        began = time.perf_counter()
        bite = await super().purge_jobs(age, limit, after)
        self.times.append((time.perf_counter() - began) * 1000)
        self.removed += bite.removed
        return bite


@asynccontextmanager
async def open_purge() -> AsyncIterator[Answering]:
    database = await Database.connect(sys.argv[1], application="benchmarks")

    async def answer(question: dict[str, Any]) -> dict[str, Any]:
        store = TimedStore(database)
        try:
            async with asyncio.timeout(question["seconds"]):
                await purge.sweep(store, float(sys.argv[2]))
        except TimeoutError:
            return {"removed": store.removed, "times": store.times, "over": False}
        return {"removed": store.removed, "times": store.times, "over": True}

    yield answer
    await database.close()


if __name__ == "__main__":
    serve(open_purge)
