"""Jobs accepted while nobody runs them, beside an endpoint that does nothing; then all of them run."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from benchmarks.cpu import Meter
from benchmarks.draining import drain
from benchmarks.driver import Driver
from benchmarks.speed import MARGIN, Figures, JobsLost
from deploy.local.stack import Stack

CONNECTIONS = 32
DRAIN = 300.0  # seconds


@dataclass(frozen=True)
class Submission:
    """`leaders` are the processes whose CPU time is told, `hook` is the receiver's URL."""

    stack: Stack
    load: Driver
    receiver: Driver
    nothing: Driver
    leaders: Mapping[str, int]
    seconds: float
    hook: str
    titles: ClassVar[dict[str, str]] = {
        "submit.nothing.rate": f"an endpoint that does nothing, {CONNECTIONS} connections, requests/s",
        "submit.rate": f"jobs accepted while no dispatcher runs, {CONNECTIONS} connections, jobs/s",
        "submit.ratio": "  the same as a share of the former",
        "submit.drain": "  then run, jobs/s to their webhooks",
    }
    groups: ClassVar[dict[str, str]] = {"submit.cpu.": "CPU-ms per job accepted"}
    heads: ClassVar[tuple[str, ...]] = ("submit.nothing.rate", "submit.rate", "submit.drain")

    def warm_up(self) -> None:
        """Open connections, fill caches and plans."""
        found = self._submit(self._port, 1.0)
        drain(self.receiver, found["jobs"], DRAIN)
        self._submit(self.nothing.ask(MARGIN, bytes=found["bytes"])["port"], 1.0)

    def run(self) -> Figures:
        """Measure both, right after each other; every job that was accepted must come to its end once."""
        nothing = self._submit(self.nothing.ask(MARGIN)["port"], self.seconds)
        for dispatcher in self.stack.dispatchers:
            dispatcher.freeze()
        try:
            meter = Meter(self.leaders)
            found = self._submit(self._port, self.seconds)
            used = meter.read()
        finally:
            begin = time.perf_counter()
            for dispatcher in self.stack.dispatchers:
                dispatcher.thaw()
        drain(self.receiver, found["jobs"], DRAIN)
        return {
            "submit.nothing.rate": nothing["counted"] / self.seconds,
            "submit.rate": found["counted"] / self.seconds,
            "submit.ratio": found["counted"] / nothing["counted"],
            "submit.drain": found["jobs"] / (time.perf_counter() - begin),
            **{f"submit.cpu.{name}": value / found["jobs"] for name, value in used.items()},
        }

    @property
    def _port(self) -> int:
        return self.stack.gateways[0].port

    def _submit(self, port: int, seconds: float) -> dict[str, Any]:
        question = {"port": port, "connections": CONNECTIONS, "seconds": seconds, "model": "echo", "hook": self.hook}
        found = self.load.ask(seconds + MARGIN, **question)
        if found["refused"]:
            raise JobsLost(f"{found['refused']} jobs were refused, {found['jobs']} accepted")
        return found
