"""One tenant's jobs at a steady pace, alone and while another floods the same model."""

import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar

from benchmarks.cpu import Meter
from benchmarks.driver import Driver
from benchmarks.report import spread
from benchmarks.speed import MARGIN, Figures, JobsLost
from deploy.local.errors import LocalError
from deploy.local.settings import ROOT
from deploy.local.stack import Stack

RATE = 1  # jobs per second of the one tenant
JOBS = 10_000  # of the other
MS = 20  # of each job
STRETCH = 6  # times the seconds of other parts: the rate is low
DRAIN = 600.0  # seconds for the flood


class FloodOver(LocalError):
    """The queue was empty before the last job of the other tenant."""


@dataclass(frozen=True)
class Fairness:
    """`leaders` are the processes whose CPU time is told, the drivers among them."""

    probe: Driver
    flood: Driver
    leaders: Mapping[str, int]
    seconds: float
    titles: ClassVar[dict[str, str]] = {
        "alone.queue.p50": f"{RATE} job/s of {MS} ms, alone: submit → start p50, ms",
        "alone.queue.p99": "  the same p99, ms",
        "alone.total.p50": "  submit → end p50, ms",
        "alone.total.p99": "  the same p99, ms",
        "beside.queue.p50": f"the same beside a flood of {JOBS}: submit → start p50, ms",
        "beside.queue.p99": "  the same p99, ms",
        "beside.total.p50": "  submit → end p50, ms",
        "beside.total.p99": "  the same p99, ms",
        "ratio": "  its submit → end p99 as a multiple of that alone",
        "flood.rate": "  the flood submitted, jobs/s",
        "flood.left": "  of the flood still queued at the end of it, jobs",
    }
    groups: ClassVar[dict[str, str]] = {
        "alone.cpu.": "CPU-ms per second, alone",
        "beside.cpu.": "CPU-ms per second, while another floods",
    }
    heads: ClassVar[tuple[str, ...]] = ("alone.total.p99", "beside.total.p99", "ratio")

    def warm_up(self) -> None:
        """Open connections, fill caches and plans."""
        self.probe.ask(MARGIN, kind="probe", rate=10, seconds=3, ms=MS)
        self.flood.ask(MARGIN, kind="flood", jobs=300, ms=1)
        self._drain()

    def run(self) -> Figures:
        """Measure without and with, right after each other; then let the flood run off."""
        alone = self._probe("alone")
        with ThreadPoolExecutor(max_workers=1) as pool:
            flooding = pool.submit(self.flood.ask, DRAIN, kind="flood", jobs=JOBS, ms=MS)
            beside = self._probe("beside")
            left = self.probe.ask(MARGIN, kind="left", within=0)["left"]
            rate = flooding.result()["rate"]
        if not left:
            raise FloodOver("the flood was over too soon; take fewer --seconds")
        self._drain()
        ratio = beside["beside.total.p99"] / alone["alone.total.p99"]
        return {**alone, **beside, "ratio": ratio, "flood.rate": rate, "flood.left": left}

    def _probe(self, kind: str) -> Figures:
        seconds, meter = self.seconds * STRETCH, Meter(self.leaders)
        found = self.probe.ask(seconds + DRAIN, kind="probe", rate=RATE, seconds=seconds, ms=MS)
        used = meter.read()
        if found["failed"]:
            raise JobsLost(f"{found['failed']} of {len(found['total'])} jobs failed")
        return {
            **spread(f"{kind}.queue", found["queue"]),
            **spread(f"{kind}.total", found["total"]),
            **{f"{kind}.cpu.{name}": milliseconds / seconds for name, milliseconds in used.items()},
        }

    def _drain(self) -> None:
        left = self.probe.ask(DRAIN + MARGIN, kind="left", within=DRAIN)["left"]
        if left:
            raise JobsLost(f"{left} jobs were still queued after {DRAIN:g} s")


def add_key(stack: Stack, tenant: str) -> str:
    """A key of a new tenant."""
    argv = [sys.executable, "-m", "services.gateway.keys", "create", tenant]
    made = subprocess.run(argv, cwd=ROOT, env=stack.environment, capture_output=True, text=True, check=True, timeout=30)
    return made.stdout.strip()
