"""The notifier alone: events in its queue → 204 from a fast receiver; and beside an endpoint that hangs."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from benchmarks.cpu import Meter
from benchmarks.driver import Driver
from benchmarks.receiver import HANG
from benchmarks.report import spread
from benchmarks.speed import Figures
from deploy.local.errors import LocalError
from deploy.local.stack import Stack

SIZES = (1, 100, 10_000)  # endpoints
EVENTS = 5_000  # in the queue, where there are no more endpoints than that
RATE = 100  # events per second
BESIDE = 100  # healthy endpoints beside the one that hangs
FULL = f"full.{BESIDE}."
BACKLOG = 10_000  # deliveries pending for the one that hangs
HELD = 32  # attempts that it may have under way, by the default of CHARONIA_ENDPOINT_CONCURRENCY
MARGIN = 240.0  # seconds until a part has failed


class DeliveriesLost(LocalError):
    """Deliveries did not arrive or were not recorded, or arrived twice."""


@dataclass(frozen=True)
class Notifier:
    """`leaders` are the processes whose CPU time is told, `url` the receiver's."""

    stack: Stack
    load: Driver
    receiver: Driver
    leaders: Mapping[str, int]
    seconds: float
    url: str
    titles: ClassVar[dict[str, str]] = {
        **{f"full.{size}.rate": f"events in the queue, endpoints: {size}, deliveries/s" for size in SIZES},
        **{f"full.{size}.per_core": f"  per core of the notifier's CPU, endpoints: {size}" for size in SIZES},
        **{f"open.{size}.p50": f"{RATE} events/s, endpoints: {size}, bell → arrival p50, ms" for size in SIZES},
        **{f"open.{size}.p99": f"  p99, endpoints: {size}, ms" for size in SIZES},
        "alone.p99": f"{RATE} events/s, {BESIDE} endpoints, p99, ms",
        "beside.p99": f"  beside one that hangs with {BACKLOG} pending, ms",
        "beside.ratio": "  the latter as a multiple of the former",
    }
    groups: ClassVar[dict[str, str]] = {
        **{f"full.{size}.cpu.": f"CPU-ms per delivery, events in the queue, endpoints: {size}" for size in SIZES},
        **{f"open.{size}.cpu.": f"CPU-ms per delivery, {RATE} events/s, endpoints: {size}" for size in SIZES},
    }
    heads: ClassVar[tuple[str, ...]] = (*(f"full.{size}.rate" for size in SIZES), "beside.ratio")

    def warm_up(self) -> None:
        """Make the subscriptions; open connections, fill caches and plans."""
        for size in SIZES:
            self.load.ask(MARGIN, kind="subscribe", endpoints=size, url=self.url)
        self._run_full(BESIDE, 2_000)

    def run(self) -> Figures:
        """Measure everything once."""
        figures: Figures = {}
        for size in SIZES:
            figures |= {f"full.{size}.{name}": value for name, value in self._run_full(size, max(EVENTS, size)).items()}
            figures |= self._run_open(f"open.{size}", size)
        return figures | self._compare()

    def _run_full(self, endpoints: int, events: int) -> Figures:
        """All events are in the queue before the notifier sees the first."""
        self.load.ask(MARGIN, kind="seed", endpoints=endpoints, events=events)
        (notifier,) = self.stack.notifiers
        notifier.freeze()
        try:
            self.load.ask(MARGIN, kind="ring", rate=None)
            meter, begin = Meter(self.leaders), time.perf_counter()
        finally:
            notifier.thaw()
        arrived = self._receive(events)
        used = meter.read()
        rate, own = events / (max(arrived.values()) - begin), used["notifier"] / events
        return {"rate": rate, "per_core": 1000 / own, **_share(used, events)}

    def _run_open(self, kind: str, endpoints: int) -> Figures:
        """Events come when they come; a latency counts from when its doorbell was due."""
        events = round(RATE * self.seconds)
        self.load.ask(MARGIN, kind="seed", endpoints=endpoints, events=events)
        meter = Meter(self.leaders)
        rung = self.load.ask(self.seconds + MARGIN, kind="ring", rate=RATE)["rung"]
        arrived = self._receive(events)
        used = meter.read()
        late = [(arrived[number] - due) * 1000 for number, due in rung]
        return {**spread(kind, late), **{f"{kind}.{name}": value for name, value in _share(used, events).items()}}

    def _compare(self) -> Figures:
        """The same load without and with an endpoint that hangs, right after each other."""
        alone = self._run_open("alone", BESIDE)
        self.load.ask(MARGIN, kind="hang", url=self.url + HANG, pending=BACKLOG)
        if self.receiver.ask(MARGIN, kind="hanging", count=HELD, within=MARGIN)["hanging"] < HELD:
            raise DeliveriesLost("the endpoint that hangs was not tried as often as it may be")
        beside = self._run_open("beside", BESIDE)
        held = self.receiver.ask(MARGIN, kind="hanging", count=1, within=MARGIN)["hanging"]
        self.load.ask(MARGIN, kind="unhang")
        self.receiver.ask(MARGIN, kind="release")
        told = ("p50", "p99", "max", "cpu.notifier")
        figures = {name: value for name, value in (alone | beside).items() if name.partition(".")[2] in told}
        return {**figures, "beside.held": held, "beside.ratio": beside["beside.p99"] / alone["alone.p99"]}

    def _receive(self, events: int) -> dict[int, float]:
        """When each number arrived, once all are recorded too; raises DeliveriesLost unless each came exactly once."""
        found = self.receiver.ask(MARGIN + 10, kind="arrived", count=events, within=MARGIN)
        states = self.load.ask(MARGIN + 10, kind="settled", within=MARGIN)
        if len(found["arrived"]) != events or found["doubled"] or states["at_once"] != events:
            came = f"{len(found['arrived'])} arrived, {found['doubled']} twice, {states['at_once']} recorded at once"
            raise DeliveriesLost(f"of {events} deliveries {came}")
        return dict(found["arrived"])


@dataclass(frozen=True)
class Deliveries(Notifier):
    """What a core can do, and no more of it."""

    titles: ClassVar[dict[str, str]] = {name: title for name, title in Notifier.titles.items() if name.startswith(FULL)}
    groups: ClassVar[dict[str, str]] = {f"{FULL}cpu.": Notifier.groups[f"{FULL}cpu."]}
    heads: ClassVar[tuple[str, ...]] = (f"{FULL}rate",)

    def warm_up(self) -> None:
        """Make the subscriptions; open connections, fill caches and plans."""
        self.load.ask(MARGIN, kind="subscribe", endpoints=BESIDE, url=self.url)
        self._run_full(BESIDE, 2_000)

    def run(self) -> Figures:
        """Measure once."""
        return {f"{FULL}{name}": value for name, value in self._run_full(BESIDE, EVENTS).items()}


def _share(used: Mapping[str, float], deliveries: int) -> Figures:
    return {f"cpu.{name}": value / deliveries for name, value in used.items()}
