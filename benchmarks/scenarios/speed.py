"""A model that costs nothing: Triton directly, Charonia at steady rates and at full load, and nothing to do.

Latencies are in ms. CPU in ms, context switches and what PostgreSQL does are per call or job, and per second when idle.
"""

import time
from collections.abc import Callable, Iterator

from benchmarks.harness.bench import IN_FLIGHT, RATE, Bench, Scenario
from benchmarks.harness.report import Figures, pick, with_prefix

IDLE_SECONDS = 10.0  # part of what idle services do comes every few seconds
RATES = {"open1": 1, "open": RATE, "open200": 200}  # jobs/s
OPEN, CLOSED = (
    ("accepted", "webhook", "around", "late", "cpu", "own", "switches"),
    ("accepted", "webhook", "cpu", "own"),
)


def measure(bench: Bench) -> Iterator[Figures]:
    bench.call_triton(1)
    bench.run_closed(3)
    bench.run_open(1)
    while True:
        direct = bench.call_triton(bench.seconds)
        counters = bench.count()
        idle = bench.measure_idle(IDLE_SECONDS, "load", "direct client") | counters.read_idle()
        figures = {
            **with_prefix("direct", pick(direct, "rate", "cpu.triton", "cpu.direct client", "cpu.others")),
            **with_prefix("idle", idle),
        }
        for name, load in loads(bench).items():
            found = load()
            figures |= with_prefix(name, found | counters.read(time.monotonic(), found["jobs"], idle))
        yield figures | {"ratio": figures["closed.rate"] / direct["rate"]}


def loads(bench: Bench) -> dict[str, Callable[[], Figures]]:
    """Return what puts each load on the stack; at one job a second, it takes twice as long."""

    def run_open(rate: float) -> Figures:
        return pick(bench.run_open(bench.seconds * (1 if rate > 1 else 2), rate=rate), "jobs", *OPEN)

    def run_closed() -> Figures:
        return pick(bench.run_closed(bench.seconds), "jobs", "rate", "switches", *CLOSED)

    return {name: lambda rate=rate: run_open(rate) for name, rate in RATES.items()} | {"closed": run_closed}


SCENARIO = Scenario(measure, {"rates": list(RATES.values()), "in_flight": IN_FLIGHT}, check_jobs=True)
