"""A stack whose tables are big, without and with old jobs being removed from them.

Latencies in ms, CPU in ms per second, and jobs removed per second.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress

from benchmarks.harness.bench import RATE, Bench, BenchmarkFailed, Scenario
from benchmarks.harness.fill_tables import fill_tables
from benchmarks.harness.report import Figures, percentiles, pick, with_prefix
from common.jobs.remove import OLDEST, EndedJobCursor, RemovedBatch
from common.postgres.database import Database
from services.dispatcher.maintenance import retention
from services.dispatcher.maintenance.retention_store import RetentionStore

RETENTION = 30 * 86_400.0  # seconds; rows are up to twice as old, so half of them are removed


class TimedStore(RetentionStore):
    """Records how long each statement took, in milliseconds, and how many jobs all removed."""

    times: tuple[float, ...] = ()
    removed = 0

    async def remove_old_jobs(self, age: float, limit: int, after: EndedJobCursor = OLDEST) -> RemovedBatch:
        began = time.perf_counter()
        batch = await super().remove_old_jobs(age, limit, after)
        self.times += ((time.perf_counter() - began) * 1000,)
        self.removed += batch.removed
        return batch


async def remove_old_jobs(database_url: str, seconds: float) -> tuple[int, tuple[float, ...]]:
    """Remove jobs as a dispatcher does; return how many, and the time of each statement."""
    database = await Database.connect(database_url, application="benchmarks")
    store = TimedStore(database)
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await retention.remove_old_jobs(store, RETENTION)
            raise BenchmarkFailed(f"only {store.removed} jobs were old: take more --rows")
    await database.close()
    return store.removed, store.times


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
