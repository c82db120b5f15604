"""A model that costs nothing: Triton directly, Charonia at full load and at a steady rate, and nothing to do.

Latencies in ms; CPU in ms per call or job, and while nothing is done per second.
"""

from collections.abc import Iterator

from benchmarks.harness.bench import IN_FLIGHT, RATE, Bench, Scenario
from benchmarks.harness.report import Figures, pick, with_prefix

IDLE_SECONDS = 3.0


def measure(bench: Bench) -> Iterator[Figures]:
    bench.call_triton(1)
    bench.run_closed(3)
    bench.run_open(1)
    while True:
        direct = bench.call_triton(bench.seconds)
        closed = bench.run_closed(bench.seconds)
        steady = bench.run_open(bench.seconds)
        yield {
            **with_prefix("direct", pick(direct, "rate", "cpu.triton", "cpu.direct client", "cpu.others")),
            **with_prefix("closed", pick(closed, "rate", "webhook", "cpu", "own")),
            **with_prefix("open", pick(steady, "accepted", "webhook", "around", "late", "cpu")),
            **with_prefix("idle", bench.measure_idle(IDLE_SECONDS, "load", "direct client")),
            "ratio": closed["rate"] / direct["rate"],
        }


SCENARIO = Scenario(measure, {"rate": RATE, "in_flight": IN_FLIGHT}, check_jobs=True)
