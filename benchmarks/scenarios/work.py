"""A model that is the bottleneck: 20 ms for a batch of at most eight, directly and through Charonia.

Rates per second, the mean number of requests in a batch, and CPU in ms per job.
"""

from collections.abc import Iterator

from benchmarks.harness.bench import IN_FLIGHT, Bench, Scenario
from benchmarks.harness.load_generator import WORK_MS
from benchmarks.harness.report import Figures, pick, with_prefix

MANY_IN_FLIGHT = 256


def measure(bench: Bench) -> Iterator[Figures]:
    bench.call_triton(1, "work")
    bench.run_closed(2, "work")
    while True:
        few, many = (_compare(bench, in_flight) for in_flight in (IN_FLIGHT, MANY_IN_FLIGHT))
        yield with_prefix("work", few) | with_prefix(f"work.{MANY_IN_FLIGHT}", many)


def _compare(bench: Bench, in_flight: int) -> Figures:
    before = bench.count_inferences("work")
    direct = bench.call_triton(bench.seconds, "work", in_flight)
    between = bench.count_inferences("work")
    closed = bench.run_closed(bench.seconds, "work", in_flight=in_flight)
    after = bench.count_inferences("work")
    return {
        "direct.rate": direct["rate"],
        "direct.batch": (between[0] - before[0]) / (between[1] - before[1]),
        "closed.batch": (after[0] - between[0]) / (after[1] - between[1]),
        "ratio": closed["rate"] / direct["rate"],
        **with_prefix("closed", pick(closed, "rate", "cpu")),
    }


SCENARIO = Scenario(measure, {"in_flight": IN_FLIGHT, "work_ms": WORK_MS}, check_jobs=True)
