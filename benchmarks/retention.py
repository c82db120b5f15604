"""Submits to a stack whose tables are big, with and without old jobs being removed from them."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar

from benchmarks.cpu import Meter
from benchmarks.driver import Driver
from benchmarks.report import spread
from benchmarks.speed import MARGIN, RATE, Figures, require_whole
from deploy.local.errors import LocalError

RETENTION = 30 * 86_400.0  # seconds; the rows are twice as old at most, so half of them are to go


class RowsUsedUp(LocalError):
    """Everything old was gone before the time was over."""


@dataclass(frozen=True)
class Retention:
    load: Driver
    purging: Driver
    leaders: Mapping[str, int]
    seconds: float
    titles: ClassVar[dict[str, str]] = {
        "off.accepted": f"{RATE} jobs/s submitted, nothing removed: accepted, jobs/s",
        "off.accepted.p50": "  the 202 p50, ms",
        "off.accepted.p99": "  the 202 p99, ms",
        "off.webhook.p50": "  submit → webhook p50, ms",
        "off.webhook.p99": "  submit → webhook p99, ms",
        "on.accepted": "the same while old jobs are removed: accepted, jobs/s",
        "on.accepted.p50": "  the 202 p50, ms",
        "on.accepted.p99": "  the 202 p99, ms",
        "on.webhook.p50": "  submit → webhook p50, ms",
        "on.webhook.p99": "  submit → webhook p99, ms",
        "purge.rate": "removed, jobs/s, each with its six other rows",
        "purge.statement.p50": "  one statement, which is how long it locks, p50, ms",
        "purge.statement.p99": "  the same p99, ms",
        "purge.statement.max": "  the longest, ms",
    }
    heads: ClassVar[tuple[str, ...]] = ("off.accepted.p99", "on.accepted.p99", "purge.rate")
    groups: ClassVar[dict[str, str]] = {
        "off.cpu.": "CPU-ms per second, nothing removed",
        "on.cpu.": "CPU-ms per second, while old jobs are removed",
    }

    def warm_up(self) -> None:
        """Open connections, fill caches and plans."""
        self.load.ask(MARGIN, kind="open", rate=RATE, seconds=3)
        self.purging.ask(MARGIN, seconds=1)

    def run(self) -> Figures:
        """Measure without and with, right after each other."""
        return {**self._submit("off"), **self._submit_and_purge()}

    def _submit_and_purge(self) -> Figures:
        with ThreadPoolExecutor(max_workers=1) as pool:
            purged = pool.submit(self.purging.ask, self.seconds + MARGIN, seconds=self.seconds)
            submitted = self._submit("on")
            found = purged.result()
        if found["over"]:
            raise RowsUsedUp(f"only {found['removed']} jobs were old; take more --rows")
        return {
            **submitted,
            "purge.rate": found["removed"] / self.seconds,
            **spread("purge.statement", found["times"]),
        }

    def _submit(self, kind: str) -> Figures:
        meter = Meter(self.leaders)
        found = self.load.ask(self.seconds + MARGIN, kind="open", rate=RATE, seconds=self.seconds)
        used = meter.read()
        require_whole(found)
        return {
            f"{kind}.accepted": len(found["accepted"]) / self.seconds,
            **spread(f"{kind}.accepted", found["accepted"]),
            **spread(f"{kind}.webhook", found["webhook"]),
            **{f"{kind}.cpu.{name}": milliseconds / self.seconds for name, milliseconds in used.items()},
        }
