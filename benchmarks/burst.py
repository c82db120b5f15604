"""A hundred jobs that take twenty seconds each, all run at the same time; submitted at once, and within a second."""

import statistics
import time
from dataclasses import dataclass
from typing import ClassVar

from benchmarks.bodies import SLOW_MS
from benchmarks.draining import drain
from benchmarks.driver import Driver
from benchmarks.speed import MARGIN, Figures, JobsLost
from benchmarks.tally import count_executed
from common import sql
from deploy.local.postgres import DATABASE
from deploy.local.stack import Stack

JOBS = 100
OVER = 1.0  # seconds in which they come, where not at once
MODEL = "slow"
WITHIN = 120.0  # seconds until what has not come is lost
COUNT = sql.load("benchmarks", "ledger.sql")["count_succeeded"]


@dataclass(frozen=True)
class Burst:
    """`hook` is the receiver's URL."""

    stack: Stack
    load: Driver
    receiver: Driver
    hook: str
    titles: ClassVar[dict[str, str]] = {
        "burst.succeeded": f"{JOBS} jobs of {SLOW_MS / 1000:g} s at once: succeeded, %",
        "burst.accepted.mean": "  the 202, mean, ms",
        "burst.accepted.max": "  the slowest, ms",
        "burst.spaced.mean": f"  the 202, mean, where they come within {OVER:g} s, ms",
        "burst.again": "  inferences more than jobs",
        "burst.batches": "  batches that Triton ran both hundreds in",
        "burst.seconds": "  seconds until the last webhook",
    }
    groups: ClassVar[dict[str, str]] = {}
    heads: ClassVar[tuple[str, ...]] = ("burst.accepted.mean", "burst.seconds")

    def warm_up(self) -> None:
        """Open connections, fill caches and plans."""
        self._submit("echo", 0.0)
        drain(self.receiver, JOBS, WITHIN)

    def run(self) -> Figures:
        """Measure once; every job must come to its end, once."""
        metrics_url = self.stack.triton.metrics_url
        before, succeeded, begin = count_executed(metrics_url, MODEL), self._count_succeeded(), time.perf_counter()
        times = self._submit(MODEL, 0.0)
        ended = max(drain(self.receiver, JOBS, WITHIN).values())
        spaced = self._submit(MODEL, OVER)
        drain(self.receiver, JOBS, WITHIN)
        executed = count_executed(metrics_url, MODEL).since(before)
        return {
            "burst.succeeded": (self._count_succeeded() - succeeded) / (2 * JOBS) * 100,
            "burst.accepted.mean": statistics.mean(times),
            "burst.accepted.max": max(times),
            "burst.spaced.mean": statistics.mean(spaced),
            "burst.again": executed.requests - 2 * JOBS,
            "burst.batches": executed.batches,
            "burst.seconds": ended - begin,
        }

    def _submit(self, model: str, over: float) -> list[float]:
        """Each on a connection that is open already; the milliseconds to each 202."""
        port = self.stack.gateways[0].port
        found = self.load.ask(MARGIN, port=port, connections=JOBS, model=model, hook=self.hook, over=over)
        if found["refused"]:
            raise JobsLost(f"{found['refused']} of {JOBS} jobs were refused")
        return [float(each) for each in found["times"]]

    def _count_succeeded(self) -> int:
        return int(self.stack.postgres.query(COUNT, DATABASE))
