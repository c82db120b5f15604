"""Two instances of each service beside one."""

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import ClassVar

from benchmarks.driver import Driver
from benchmarks.speed import IN_FLIGHT, MARGIN, Figures, require_whole
from deploy.local.services import Service
from deploy.local.stack import Stack

WARM = 2.0  # seconds
TITLES = {"one": "one of each service", "two": "two of each"}


@dataclass(frozen=True)
class Pair:
    """The second ones run only while they are measured."""

    stack: Stack
    load: Driver
    seconds: float
    order: list[str] = field(default_factory=lambda: list(TITLES))  # turned each round: tables grow
    titles: ClassVar[dict[str, str]] = {
        **{f"pair.{how}.rate": f"{title}, {IN_FLIGHT} jobs in flight, jobs/s" for how, title in TITLES.items()},
        "pair.ratio": "  the latter as a share of the former",
    }
    groups: ClassVar[dict[str, str]] = {}
    heads: ClassVar[tuple[str, ...]] = ("pair.one.rate", "pair.two.rate")

    def warm_up(self) -> None:
        """Open connections, fill caches and plans."""
        self._run(1.0)

    def run(self) -> Figures:
        """Measure both, right after each other."""
        rates = {how: self._measure(how) for how in self.order}
        self.order.append(self.order.pop(0))
        figures = {f"pair.{how}.rate": rate for how, rate in rates.items()}
        return figures | {"pair.ratio": rates["two"] / rates["one"]}

    def _measure(self, how: str) -> float:
        with ExitStack() as stopping:
            if how == "two":
                for services in (self.stack.dispatchers, self.stack.notifiers, self.stack.gateways):
                    self._add(services, stopping)
            self._run(WARM)
            return self._run(self.seconds)

    def _add(self, services: list[Service], stopping: ExitStack) -> None:
        """A second one on the next port; it is among those of the stack until `stopping`."""
        (first,) = services
        name = f"{first.kind}-2"
        second = Service(first.kind, first.port + 1, self.stack.environment, self.stack.log_dir, name=name)
        services.append(second)
        stopping.callback(services.remove, second)
        stopping.callback(second.stop)
        second.start()

    def _run(self, seconds: float) -> float:
        """Each job goes to the next gateway in turn; jobs per second."""
        apis = [gateway.url for gateway in self.stack.gateways]
        question = {"kind": "closed", "in_flight": IN_FLIGHT, "seconds": seconds, "apis": apis}
        found = self.load.ask(seconds + MARGIN, **question)
        require_whole(found)
        return float(found["counted"]) / seconds
