"""A stack whose tables are big, without and with old jobs being removed from them.

Latencies in ms, CPU in ms per second, and jobs removed per second.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import asyncpg

from benchmarks.harness.bench import RATE, Bench, BenchmarkFailed, Scenario
from benchmarks.harness.fill_tables import fill_tables
from benchmarks.harness.report import Figures, percentiles, pick, with_prefix
from common.postgres.database import Database
from services.dispatcher.maintenance.retention import retention

RETENTION = 30 * 86_400.0  # seconds; rows are up to twice as old, so half of them are removed


class TimedDatabase:
    """Records how long each statement took, in milliseconds, and how many jobs all removed."""

    def __init__(self, database: Database) -> None:
        self.times: tuple[float, ...] = ()
        self.removed = 0
        self._database = database

    async def fetch(self, query: str, /, *values: Any) -> list[asyncpg.Record]:
        began = time.perf_counter()
        found = await self._database.fetch(query, *values)
        self.times += ((time.perf_counter() - began) * 1000,)
        self.removed += sum(record["removed"] for record in found)
        return found


async def remove_old_jobs(database_url: str, seconds: float) -> tuple[int, tuple[float, ...]]:
    """Remove jobs as a dispatcher does; return how many, and the time of each statement."""
    database = await Database.connect(database_url, application="benchmarks")
    timed = TimedDatabase(database)
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await retention.remove_old_jobs(timed, RETENTION)
            raise BenchmarkFailed(f"only {timed.removed} jobs were old: take more --rows")
    await database.close()
    return timed.removed, timed.times


def measure(bench: Bench) -> Iterator[Figures]:
    fill_tables(bench.stack, bench.options.rows, 2 * RETENTION)
    bench.run_open(3)
    remover, url = bench.child("removal"), bench.stack.postgres.url
    remover.call(remove_old_jobs, seconds=1, database_url=url)
    while True:
        figures = with_prefix("off", _submit(bench))
        removing = remover.start(remove_old_jobs, seconds=bench.seconds, database_url=url)
        figures |= with_prefix("on", _submit(bench))
        removed, times = removing.result()
        yield {**figures, "removal.rate": removed / bench.seconds, **percentiles("removal.statement", times)}


def _submit(bench: Bench) -> Figures:
    found = bench.run_open(bench.seconds, names=["load", "removal"])
    rate = found["jobs"] / bench.seconds
    cpu = {name: used * rate for name, used in pick(found, "cpu").items()}
    return {"accepted": rate, **pick(found, "accepted", "webhook"), **cpu}


SCENARIO = Scenario(measure, {"rate": RATE}, ("rows",))
