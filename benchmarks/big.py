"""A stack whose tables are big beside one whose tables are not."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from benchmarks.cpu import Meter
from benchmarks.driver import Driver
from benchmarks.speed import IN_FLIGHT, MARGIN, Figures, require_whole
from deploy.local.stack import Stack

WARM = 4.0  # seconds
TITLES = {"empty": "empty tables", "full": "--rows ended and --queued waiting jobs"}


@dataclass(frozen=True)
class Big:
    """The stack that is full, and of both the loads, and the processes whose CPU time is told; `filled` in seconds."""

    full: Stack
    loads: Mapping[str, Driver]
    leaders: Mapping[str, Mapping[str, int]]
    seconds: float
    filled: float
    order: list[str] = field(default_factory=lambda: list(TITLES))  # turned each round
    titles: ClassVar[dict[str, str]] = {
        **{f"big.{how}.rate": f"{title}: {IN_FLIGHT} jobs in flight, jobs/s" for how, title in TITLES.items()},
        "big.ratio": "  the latter as a share of the former",
        "big.filled": "  seconds to fill the tables",
    }
    groups: ClassVar[dict[str, str]] = {f"big.{how}.cpu.": f"CPU-ms per job, {title}" for how, title in TITLES.items()}
    heads: ClassVar[tuple[str, ...]] = ("big.empty.rate", "big.full.rate")

    def warm_up(self) -> None:
        """Open connections, fill caches and plans."""
        for load in self.loads.values():
            load.ask(MARGIN, kind="closed", in_flight=IN_FLIGHT, seconds=WARM)

    def run(self) -> Figures:
        """Measure both, right after each other."""
        figures: Figures = {"big.filled": self.filled}
        for how in self.order:
            figures |= {f"big.{how}.{name}": value for name, value in self._measure(how).items()}
        self.order.append(self.order.pop(0))
        self.full.check()
        return figures | {"big.ratio": figures["big.full.rate"] / figures["big.empty.rate"]}

    def _measure(self, how: str) -> Figures:
        meter = Meter(self.leaders[how])
        question = {"kind": "closed", "in_flight": IN_FLIGHT, "seconds": self.seconds}
        found = self.loads[how].ask(self.seconds + MARGIN, **question)
        used = meter.read()
        require_whole(found)
        return {
            "rate": found["counted"] / self.seconds,
            **{f"cpu.{name}": value / found["jobs"] for name, value in used.items()},
        }
