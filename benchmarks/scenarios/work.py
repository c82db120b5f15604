"""A model that is the bottleneck: 20 ms for a batch of at most eight, directly and through Charonia.

Rates per second, the mean number of requests in a batch, and CPU in ms per job.
"""

from collections.abc import Iterator

from benchmarks.harness.bench import IN_FLIGHT, Bench, Scenario
from benchmarks.harness.load_generator import WORK_MS
from benchmarks.harness.report import Figures, pick, with_prefix


def measure(bench: Bench) -> Iterator[Figures]:
    bench.call_triton(1, "work")
    bench.run_closed(2, "work")
    while True:
        before = bench.count_inferences("work")
        direct = bench.call_triton(bench.seconds, "work")
        between = bench.count_inferences("work")
        closed = bench.run_closed(bench.seconds, "work")
        after = bench.count_inferences("work")
        yield {
            "work.direct.rate": direct["rate"],
            "work.direct.batch": (between[0] - before[0]) / (between[1] - before[1]),
            "work.closed.batch": (after[0] - between[0]) / (after[1] - between[1]),
            "work.ratio": closed["rate"] / direct["rate"],
            **with_prefix("work.closed", pick(closed, "rate", "cpu")),
        }


SCENARIO = Scenario(measure, {"in_flight": IN_FLIGHT, "work_ms": WORK_MS}, check_jobs=True)
