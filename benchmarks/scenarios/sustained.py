"""Jobs at a high rate for long, while history is removed as fast as it comes.

Latencies are in ms, CPU in ms per job, sizes in MB. The figures `growth` compare the last quarter of the time with the
one before it: 1 is no change. The result has the figures of all parts, too.
"""

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.harness.bench import QUERIES, Bench, Scenario
from benchmarks.harness.report import Figures, pick, round_figure, with_prefix
from deploy.local.servers.postgres import DATABASE

RATE = 650  # jobs per second: what two cores do, with the load itself on them
RETENTION = 120  # seconds
PARTS = 20  # of the time; the last ten are compared
MEASURED = ("webhook.p50", "webhook.p99", "cpu.postgres")


def measure(bench: Bench) -> Iterator[Figures]:
    seconds = bench.options.minutes * 60 / PARTS
    parts: list[Figures] = []
    for _ in range(PARTS):
        found = bench.run_open(seconds, rate=RATE)
        sizes = json.loads(bench.stack.postgres.query(QUERIES["measure_tables"], DATABASE))
        parts.append(pick(found, "accepted", "webhook", "cpu") | with_prefix("size", sizes))
    bench.facts["parts"] = [{name: round_figure(value) for name, value in part.items()} for part in parts]
    middle, last = parts[PARTS // 2 : PARTS * 3 // 4], parts[PARTS * 3 // 4 :]
    growth = {name: compare(middle, last, name) for name in (*MEASURED, *pick(last[-1], "size"))}
    yield average(last) | with_prefix("growth", growth)


def average(parts: Sequence[Mapping[str, float]]) -> Figures:
    return {name: statistics.mean(part.get(name, 0.0) for part in parts) for name in parts[-1]}


def compare(before: Sequence[Mapping[str, float]], after: Sequence[Mapping[str, float]], name: str) -> float:
    """Return by which factor the mean of a figure grew."""
    former = statistics.mean(part.get(name, 0.0) for part in before)
    return statistics.mean(part.get(name, 0.0) for part in after) / former if former else 1.0


SCENARIO = Scenario(
    measure,
    {"rate": RATE, "retention": RETENTION},
    ("minutes",),
    environment={"CHARONIA_RETENTION": str(RETENTION)},
    once=True,
    check_jobs=True,
)
