"""A hundred jobs of twenty seconds that all run at the same time: submitted at once, and within a second.

Times to the 202 in ms, the seconds until the last webhook of the first hundred, and counts.
"""

import time
from collections.abc import Iterator

from benchmarks.harness.bench import Bench, Scenario
from benchmarks.harness.load_generator import SLOW_MS
from benchmarks.harness.report import Figures

JOBS = 100
SPREAD = 1.0  # seconds over which the second hundred is submitted
LOST_SECONDS = 120.0


def measure(bench: Bench) -> Iterator[Figures]:
    def submit(model: str, spread: float) -> tuple[Figures, float]:
        """Submit each job on a connection of its own; also return when the last webhook arrived."""
        found = bench.submit(model=model, connections=JOBS, requests=JOBS, spread=spread)
        return found, max(bench.await_webhooks(JOBS, LOST_SECONDS).values())

    submit("echo", 0.0)
    while True:
        requests, batches = bench.count_inferences("slow")
        (succeeded,), begin = bench.query("count_succeeded"), time.perf_counter()
        (at_once, end), (spaced, _) = submit("slow", 0.0), submit("slow", SPREAD)
        requests_now, batches_now = bench.count_inferences("slow")
        yield {
            "burst.succeeded": (bench.query("count_succeeded")[0] - succeeded) / (2 * JOBS) * 100,
            "burst.accepted.mean": at_once["accepted.mean"],
            "burst.accepted.max": at_once["accepted.max"],
            "burst.spaced.mean": spaced["accepted.mean"],
            "burst.again": requests_now - requests - 2 * JOBS,
            "burst.batches": batches_now - batches,
            "burst.seconds": end - begin,
        }


SCENARIO = Scenario(measure, {"jobs_at_once": JOBS, "slow_ms": SLOW_MS}, check_jobs=True)
