"""What traces cost: the same load without them, with one in a hundred, and with all, right after each other."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from benchmarks.cpu import Meter
from benchmarks.driver import Driver
from benchmarks.report import spread
from benchmarks.speed import IN_FLIGHT, MARGIN, OWN, RATE, Figures, require_whole
from deploy.local.ports import HOST
from deploy.local.services import Service
from deploy.local.stack import Stack

WARM = 2  # seconds
OFF = {"OTEL_SDK_DISABLED": "true"}
HOW: dict[str, dict[str, str]] = {
    "off": OFF,
    "some": {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.01"},
    "all": {},
}
TITLES = {"off": "no traces", "some": "1 % sampled", "all": "all sampled"}


def name_collector(port: int) -> dict[str, str]:
    """For the stack: Triton sends its spans there too, and the services as each part has it."""
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{HOST}:{port}"} | OFF


@dataclass(frozen=True)
class Tracing:
    stack: Stack
    load: Driver
    sink: Driver
    seconds: float
    order: list[str] = field(default_factory=lambda: list(HOW))  # turned each round: tables grow
    titles: ClassVar[dict[str, str]] = {
        **{
            f"{how}.{name}": f"{title}: {text}" if name == "rate" else f"  {text}"
            for how, title in TITLES.items()
            for name, text in {
                "rate": f"{IN_FLIGHT} jobs in flight, jobs/s",
                "own": "CPU-ms per job of our three services",
                "accepted.p50": f"{RATE} jobs/s, the 202 p50, ms",
                "webhook.p50": "submit → webhook p50, ms",
                "webhook.p99": "submit → webhook p99, ms",
                "bytes": "bytes per job to the collector",
            }.items()
        },
        **{f"{how}.ratio": f"{TITLES[how]}: jobs/s as a share of those without" for how in ("some", "all")},
        **{f"{how}.cost": f"{TITLES[how]}: CPU-ms per job more than without" for how in ("some", "all")},
    }
    groups: ClassVar[dict[str, str]] = {f"{how}.cpu.": f"CPU-ms per job, {title}" for how, title in TITLES.items()}
    heads: ClassVar[tuple[str, ...]] = ("off.rate", "some.ratio", "all.ratio", "some.cost", "all.cost")

    def warm_up(self) -> None:
        """Open connections, fill caches and plans."""
        self.load.ask(MARGIN, kind="closed", in_flight=IN_FLIGHT, seconds=3)

    def run(self) -> Figures:
        """Measure each way once, with services started anew for it."""
        found: Figures = {}
        for how in self.order:
            found |= {f"{how}.{name}": value for name, value in self._measure(HOW[how]).items()}
        self.order.append(self.order.pop(0))
        for how in ("some", "all"):
            found[f"{how}.ratio"] = found[f"{how}.rate"] / found["off.rate"]
            found[f"{how}.cost"] = found[f"{how}.own"] - found["off.own"]
        return found

    def _measure(self, variables: Mapping[str, str]) -> Figures:
        leaders = self._restart(variables)
        self.load.ask(MARGIN, kind="closed", in_flight=IN_FLIGHT, seconds=WARM)
        self.sink.ask(MARGIN)
        meter = Meter(leaders)
        closed = self.load.ask(self.seconds + MARGIN, kind="closed", in_flight=IN_FLIGHT, seconds=self.seconds)
        used = {name: value / closed["jobs"] for name, value in meter.read().items()}
        taken = self.sink.ask(MARGIN)["bytes"] / closed["jobs"]
        steady = self.load.ask(self.seconds + MARGIN, kind="open", rate=RATE, seconds=self.seconds)
        for load in (closed, steady):
            require_whole(load)
        return {
            "rate": closed["counted"] / self.seconds,
            "own": sum(used[name] for name in OWN),
            "bytes": taken,
            **spread("accepted", steady["accepted"]),
            **spread("webhook", steady["webhook"]),
            **{f"cpu.{name}": value for name, value in used.items()},
        }

    def _restart(self, variables: Mapping[str, str]) -> dict[str, int]:
        """The processes whose CPU time is told, by name."""
        environment = {name: value for name, value in self.stack.environment.items() if name not in OFF}
        environment.update(variables)
        for service in reversed(self.stack.services):
            service.stop()
        (self.stack.gateways[:], self.stack.dispatchers[:], self.stack.notifiers[:]) = (
            [Service(each.kind, each.port, environment, self.stack.log_dir) for each in services]
            for services in (self.stack.gateways, self.stack.dispatchers, self.stack.notifiers)
        )
        self.stack.start_services()
        members = {member.name: member.process.pid for member in (*self.stack.servers, *self.stack.services)}
        members |= {"load": self.load.pid, "collector": self.sink.pid}
        return {name: pid for name, pid in members.items() if pid is not None}
