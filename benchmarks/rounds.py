"""One round: Triton directly, Charonia at full load, Charonia at a fixed rate, right after each other."""

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.cpu import Meter
from benchmarks.driver import Driver
from deploy.local.errors import LocalError
from deploy.local.stack import Stack

IN_FLIGHT = 64
RATE = 50  # jobs per second
MARGIN = 60.0  # seconds beyond the load until a driver has failed
IDLE = 3.0  # seconds

Figures = dict[str, float]


class JobsLost(LocalError):
    """Jobs were refused, failed, or their webhooks did not come, or came twice."""


@dataclass(frozen=True)
class Bench:
    """`leaders` are the processes whose CPU time is told, the drivers among them."""

    direct: Driver
    load: Driver
    leaders: Mapping[str, int]
    seconds: float

    @classmethod
    def of(cls, stack: Stack, direct: Driver, load: Driver, seconds: float) -> "Bench":
        members = {member.name: member.process.pid for member in (*stack.servers, *stack.services)}
        leaders = {name: pid for name, pid in members.items() if pid is not None}
        return cls(direct, load, leaders | {"direct client": direct.pid, "load": load.pid}, seconds)

    def run(self) -> Figures:
        """Measure everything once."""
        return {**self._call_directly(), **self._run_closed(), **self._run_open()}

    def warm_up(self) -> None:
        """Open connections, fill caches and plans."""
        self.direct.ask(MARGIN, in_flight=IN_FLIGHT, seconds=1)
        self.load.ask(MARGIN, kind="closed", in_flight=IN_FLIGHT, seconds=3)
        self.load.ask(MARGIN, kind="open", rate=RATE, seconds=1)

    def watch_idle(self) -> Figures:
        """Measure what the processes use while there is nothing to do, in CPU milliseconds per second."""
        meter = Meter(self.leaders)
        time.sleep(IDLE)
        return {f"idle.cpu.{name}": used / IDLE for name, used in meter.read().items()}

    def _call_directly(self) -> Figures:
        meter = Meter(self.leaders)
        found = self.direct.ask(self.seconds + MARGIN, in_flight=IN_FLIGHT, seconds=self.seconds)
        if found["failed"]:
            raise JobsLost(f"{found['failed']} of {found['calls']} direct calls of Triton failed")
        used = meter.read()
        return {
            "direct.rate": found["counted"] / self.seconds,
            **{f"direct.cpu.{name}": used[name] / found["calls"] for name in ("triton", "direct client", "others")},
        }

    def _run_closed(self) -> Figures:
        meter = Meter(self.leaders)
        found = self.load.ask(self.seconds + MARGIN, kind="closed", in_flight=IN_FLIGHT, seconds=self.seconds)
        used = meter.read()
        _require_whole(found)
        return {
            "closed.rate": found["counted"] / self.seconds,
            **_spread("closed.webhook", found["webhook"]),
            **_share("closed", used, found["jobs"]),
        }

    def _run_open(self) -> Figures:
        meter = Meter(self.leaders)
        found = self.load.ask(self.seconds + MARGIN, kind="open", rate=RATE, seconds=self.seconds)
        used = meter.read()
        _require_whole(found)
        kinds = ("accepted", "webhook", "around", "late")
        spreads = [_spread(f"open.{kind}", found[kind]) for kind in kinds]
        return {name: value for each in (*spreads, _share("open", used, found["jobs"])) for name, value in each.items()}


def _require_whole(found: Mapping[str, int]) -> None:
    if found["failed"] or found["doubled"]:
        raise JobsLost(f"of {found['jobs']} jobs {found['failed']} were lost, {found['doubled']} webhooks came twice")


def _share(kind: str, used: Mapping[str, float], jobs: int) -> Figures:
    return {f"{kind}.cpu.{name}": value / jobs for name, value in used.items() if name != "direct client"}


def _spread(name: str, values: list[float]) -> Figures:
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return {f"{name}.p50": cuts[49], f"{name}.p99": cuts[98], f"{name}.max": max(values)}
