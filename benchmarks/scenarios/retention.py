"""A stack whose tables are big, without and with a generation of history being emptied.

Latencies in ms, CPU in ms per second, and how long it takes to empty a generation, in ms.
"""

import time
from collections.abc import Iterator

from benchmarks.harness.bench import RATE, Bench, BenchmarkFailed, Scenario
from benchmarks.harness.fill_tables import fill_tables
from benchmarks.harness.report import Figures, pick, with_prefix
from common.postgres.database import Database
from services.dispatcher.maintenance.history.store import HistoryStore

AGE = 30 * 86_400.0  # seconds; of the oldest rows
ROUNDS = 6  # each empties one of the generations that are not the current one


async def empty(database_url: str, generation: int) -> float:
    """Empty a generation as a dispatcher does. Return how many milliseconds it took."""
    database = await Database.connect(database_url, application="benchmarks")
    began = time.perf_counter()
    emptied = await HistoryStore(database).empty(generation, 0.0)
    took = (time.perf_counter() - began) * 1000
    await database.close()
    if not emptied:
        raise BenchmarkFailed("somebody reads the history for long")
    return took


def measure(bench: Bench) -> Iterator[Figures]:
    rows = bench.options.rows
    fill_tables(bench.stack, rows, AGE)
    bench.run_open(3)
    emptier, url = bench.child("removal"), bench.stack.postgres.url
    for generation in range(1, ROUNDS + 1):
        figures = with_prefix("off", _submit(bench))
        emptying = emptier.start(empty, database_url=url, generation=generation)
        figures |= with_prefix("on", _submit(bench))
        yield {**figures, "empty.ms": emptying.result(), "empty.jobs": rows / 7}
    raise BenchmarkFailed(f"all generations are empty: take {ROUNDS} rounds at most")


def _submit(bench: Bench) -> Figures:
    found = bench.run_open(bench.seconds, names=["load", "removal"])
    rate = found["jobs"] / bench.seconds
    cpu = {name: used * rate for name, used in pick(found, "cpu").items()}
    return {"accepted": rate, **pick(found, "accepted", "webhook"), **cpu}


SCENARIO = Scenario(measure, {"rate": RATE}, ("rows",))
