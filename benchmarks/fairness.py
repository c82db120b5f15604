"""One tenant's jobs at a steady pace, alone and while another floods the same model."""

import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar

from benchmarks.cpu import Meter
from benchmarks.driver import Driver
from benchmarks.flood import AT_A_TIME
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


def _title(kind: str, name: str) -> dict[str, str]:
    return {
        f"{kind}.queue.p50": f"{name}: submit → start p50, ms",
        f"{kind}.queue.p99": "  the same p99, ms",
        f"{kind}.total.p50": "  submit → end p50, ms",
        f"{kind}.total.p99": "  the same p99, ms",
    }


@dataclass(frozen=True)
class Fairness:
    """`leaders` are the processes whose CPU time is told, the drivers among them."""

    probe: Driver
    flood: Driver
    leaders: Mapping[str, int]
    seconds: float
    titles: ClassVar[dict[str, str]] = {
        **_title("alone", f"{RATE} job/s of {MS} ms, alone"),
        **_title("beside", f"the same beside {JOBS} that another tenant has queued"),
        "ratio": "  its submit → end p99 as a multiple of that alone",
        "beside.left": "  of the others still queued at the end of it, jobs",
        **_title("flooded", f"the same while another tenant submits {JOBS}, {AT_A_TIME} at a time"),
        "flooded.ratio": "  its submit → end p99 as a multiple of that alone",
        "flooded.rate": "  the others submitted, jobs/s",
        "flooded.left": "  of the others still queued at the end of it, jobs",
    }
    groups: ClassVar[dict[str, str]] = {
        "alone.cpu.": "CPU-ms per second, alone",
        "beside.cpu.": "CPU-ms per second, beside a queue",
        "flooded.cpu.": "CPU-ms per second, while another submits",
    }
    heads: ClassVar[tuple[str, ...]] = ("alone.total.p99", "beside.total.p99", "ratio", "flooded.ratio")

    def warm_up(self) -> None:
        """Open connections, fill caches and plans."""
        self.probe.ask(MARGIN, kind="probe", rate=10, seconds=3, ms=MS)
        self.flood.ask(MARGIN, kind="flood", jobs=300, ms=1)
        self._drain()

    def run(self) -> Figures:
        """Measure without and with, right after each other; then let the others run off."""
        figures = self._probe("alone")
        for kind, how in {"beside": "batch", "flooded": "flood"}.items():
            with ThreadPoolExecutor(max_workers=1) as pool:
                flooding = pool.submit(self.flood.ask, DRAIN, kind=how, jobs=JOBS, ms=MS)
                if how == "batch":
                    flooding.result()
                figures |= self._probe(kind)
                figures[f"{kind}.left"] = self.probe.ask(MARGIN, kind="left", within=0)["left"]
                figures[f"{kind}.rate"] = flooding.result()["rate"]
            if not figures[f"{kind}.left"]:
                raise FloodOver("the flood was over too soon; take fewer --seconds")
            self._drain()
            figures[f"{kind}.ratio"] = figures[f"{kind}.total.p99"] / figures["alone.total.p99"]
        return {"ratio": figures.pop("beside.ratio"), **figures}

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
