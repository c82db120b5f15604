"""One round: Triton directly, Charonia at full load, Charonia at a fixed rate, right after each other."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from benchmarks.cpu import Meter
from benchmarks.driver import Driver
from benchmarks.report import spread
from deploy.local.errors import LocalError

IN_FLIGHT = 64
RATE = 50  # jobs per second
MARGIN = 60.0  # seconds beyond the load until a driver has failed
IDLE = 3.0  # seconds
OWN = ("gateway", "dispatcher", "notifier")

Figures = dict[str, float]


class JobsLost(LocalError):
    """Jobs were refused, failed, or their webhooks did not come, or came twice."""


@dataclass(frozen=True)
class Speed:
    """`leaders` are the processes whose CPU time is told, the drivers among them."""

    direct: Driver
    load: Driver
    leaders: Mapping[str, int]
    seconds: float
    titles: ClassVar[dict[str, str]] = {
        "direct.rate": f"Triton directly, {IN_FLIGHT} calls in flight, calls/s",
        "closed.rate": f"Charonia, {IN_FLIGHT} jobs in flight, jobs/s submit → webhook",
        "ratio": "  the same as a share of Triton directly",
        "closed.webhook.p50": "  submit → webhook p50, ms",
        "closed.webhook.p99": "  submit → webhook p99, ms",
        "closed.own": "  CPU-ms per job of gateway, dispatcher and notifier",
        "open.accepted.p50": f"Charonia, {RATE} jobs/s, the 202 p50, ms",
        "open.accepted.p99": "  the 202 p99, ms",
        "open.webhook.p50": "  submit → webhook p50, ms",
        "open.webhook.p99": "  submit → webhook p99, ms",
        "open.around.p50": "  submit → webhook less inference p50, ms",
        "open.around.p99": "  submit → webhook less inference p99, ms",
        "open.late.p99": "  lateness of the load itself p99, ms",
    }
    groups: ClassVar[dict[str, str]] = {
        "direct.cpu.": "CPU-ms per direct call",
        "closed.cpu.": f"CPU-ms per job, {IN_FLIGHT} in flight",
        "open.cpu.": f"CPU-ms per job, {RATE} jobs/s",
        "idle.cpu.": "CPU-ms per second, idle",
    }
    heads: ClassVar[tuple[str, ...]] = ("direct.rate", "closed.rate")

    def run(self) -> Figures:
        """Measure everything once."""
        found = {**self._call_directly(), **self._run_closed(), **self._run_open(), **self._watch_idle()}
        return found | {"ratio": found["closed.rate"] / found["direct.rate"]}

    def warm_up(self) -> None:
        """Open connections, fill caches and plans."""
        self.direct.ask(MARGIN, in_flight=IN_FLIGHT, seconds=1)
        self.load.ask(MARGIN, kind="closed", in_flight=IN_FLIGHT, seconds=3)
        self.load.ask(MARGIN, kind="open", rate=RATE, seconds=1)

    def _call_directly(self) -> Figures:
        meter = Meter(self.leaders)
        found = self.direct.ask(self.seconds + MARGIN, in_flight=IN_FLIGHT, seconds=self.seconds)
        require_whole_calls(found)
        used = meter.read()
        return {
            "direct.rate": found["counted"] / self.seconds,
            **{f"direct.cpu.{name}": used[name] / found["calls"] for name in ("triton", "direct client", "others")},
        }

    def _run_closed(self) -> Figures:
        meter = Meter(self.leaders)
        found = self.load.ask(self.seconds + MARGIN, kind="closed", in_flight=IN_FLIGHT, seconds=self.seconds)
        used = meter.read()
        require_whole(found)
        return {
            "closed.rate": found["counted"] / self.seconds,
            **spread("closed.webhook", found["webhook"]),
            **_share("closed", used, found["jobs"]),
            "closed.own": sum(used[name] for name in OWN) / found["jobs"],
        }

    def _run_open(self) -> Figures:
        meter = Meter(self.leaders)
        found = self.load.ask(self.seconds + MARGIN, kind="open", rate=RATE, seconds=self.seconds)
        used = meter.read()
        require_whole(found)
        kinds = ("accepted", "webhook", "around", "late")
        spreads = [spread(f"open.{kind}", found[kind]) for kind in kinds]
        return {name: value for each in (*spreads, _share("open", used, found["jobs"])) for name, value in each.items()}

    def _watch_idle(self) -> Figures:
        """What the processes use while there is nothing to do, in CPU milliseconds per second."""
        meter = Meter(self.leaders)
        time.sleep(IDLE)
        return {f"idle.cpu.{name}": used / IDLE for name, used in meter.read().items()}


def require_whole(found: Mapping[str, int]) -> None:
    """Raise JobsLost unless every job came to its end, and only once."""
    if found["failed"] or found["doubled"]:
        raise JobsLost(f"of {found['jobs']} jobs {found['failed']} were lost, {found['doubled']} webhooks came twice")


def require_whole_calls(found: Mapping[str, int]) -> None:
    """Raise JobsLost unless every direct call was answered."""
    if found["failed"]:
        raise JobsLost(f"{found['failed']} of {found['calls']} direct calls of Triton failed")


def _share(kind: str, used: Mapping[str, float], jobs: int) -> Figures:
    return {f"{kind}.cpu.{name}": value / jobs for name, value in used.items() if name != "direct client"}
