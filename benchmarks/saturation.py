"""A model that is the bottleneck: its jobs per second through Charonia, beside what Triton does directly."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from benchmarks.bodies import WORK_MS
from benchmarks.cpu import Meter
from benchmarks.driver import Driver
from benchmarks.speed import IN_FLIGHT, MARGIN, Figures, require_whole, require_whole_calls
from benchmarks.tally import Executed, count_executed

MODEL = "work"  # sleeps once for a batch of at most eight


@dataclass(frozen=True)
class Saturation:
    """`leaders` are the processes whose CPU time is told, `metrics_url` is Triton's."""

    direct: Driver
    load: Driver
    leaders: Mapping[str, int]
    metrics_url: str
    seconds: float
    titles: ClassVar[dict[str, str]] = {
        "work.direct.rate": f"`{MODEL}`, {WORK_MS} ms a batch, Triton directly, {IN_FLIGHT} in flight, calls/s",
        "work.direct.batch": "  requests in a batch",
        "work.closed.rate": f"  Charonia, {IN_FLIGHT} jobs in flight, jobs/s submit → webhook",
        "work.closed.batch": "  requests in a batch",
        "work.ratio": "  the same as a share of Triton directly",
    }
    groups: ClassVar[dict[str, str]] = {"work.closed.cpu.": f"CPU-ms per job of `{MODEL}`, {IN_FLIGHT} in flight"}
    heads: ClassVar[tuple[str, ...]] = ("work.direct.rate", "work.closed.rate")

    def warm_up(self) -> None:
        """Open connections, fill caches and plans."""
        self.direct.ask(MARGIN, in_flight=IN_FLIGHT, seconds=1, model=MODEL)
        self.load.ask(MARGIN, kind="closed", in_flight=IN_FLIGHT, seconds=2, model=MODEL)

    def run(self) -> Figures:
        """Measure directly and through Charonia, right after each other."""
        before = count_executed(self.metrics_url, MODEL)
        direct = self.direct.ask(self.seconds + MARGIN, in_flight=IN_FLIGHT, seconds=self.seconds, model=MODEL)
        require_whole_calls(direct)
        between, meter = count_executed(self.metrics_url, MODEL), Meter(self.leaders)
        question = {"kind": "closed", "in_flight": IN_FLIGHT, "seconds": self.seconds, "model": MODEL}
        closed = self.load.ask(self.seconds + MARGIN, **question)
        used, after = meter.read(), count_executed(self.metrics_url, MODEL)
        require_whole(closed)
        return {
            "work.direct.rate": direct["counted"] / self.seconds,
            "work.direct.batch": _size(between.since(before)),
            "work.closed.rate": closed["counted"] / self.seconds,
            "work.closed.batch": _size(after.since(between)),
            "work.ratio": closed["counted"] / direct["counted"],
            **{f"work.closed.cpu.{name}": value / closed["jobs"] for name, value in used.items()},
        }


def _size(executed: Executed) -> float:
    """Of a batch, on average."""
    return executed.requests / executed.batches
