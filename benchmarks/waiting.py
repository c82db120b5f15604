"""Thousands who wait on one gateway: what they cost, and how soon each hears; and a streaming model's responses."""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import httpx

from benchmarks.cpu import Meter
from benchmarks.driver import Driver
from benchmarks.report import spread
from benchmarks.resident import resident
from benchmarks.speed import Figures
from deploy.local.errors import LocalError
from deploy.local.stack import Stack

CROWD = 5_000
SOME = 50  # of them, to warm up
ENDED = 200  # of the jobs that are waited for
LOOK = 0.2  # seconds
STREAMS = 20  # jobs of the streaming model, one after the other
MARGIN = 120.0  # seconds until a part has failed
HOW = {"stream": "server-sent events", "wait": "?wait=60"}


@dataclass(frozen=True)
class Waiting:
    """`leaders` are the processes whose CPU time is told."""

    stack: Stack
    crowd: Driver
    leaders: Mapping[str, int]
    seconds: float
    titles: ClassVar[dict[str, str]] = {
        **{
            f"{how}.{name}": f"{CROWD} clients, {title}: {text}"
            for how, title in HOW.items()
            for name, text in {
                "open": "seconds to open",
                "memory": "gateway's memory, MB more than before",
                "each": "  per client, KB",
                "told.p50": "cancel → told p50, ms",
                "told.p99": "  p99, ms",
            }.items()
        },
        "first.p50": "streaming model's response → client p50, ms",
        "first.p99": "  p99, ms",
    }
    groups: ClassVar[dict[str, str]] = {
        "idle.cpu.": "CPU-ms per second, nobody waits",
        **{f"{how}.cpu.": f"CPU-ms per second, {CROWD} clients, {title}" for how, title in HOW.items()},
    }
    heads: ClassVar[tuple[str, ...]] = ("stream.memory", "wait.memory", "first.p99")

    def warm_up(self) -> None:
        """Open connections, fill caches and plans."""
        self.crowd.ask(MARGIN, kind="submit", count=SOME)
        self.crowd.ask(MARGIN, kind="open", stream=True)
        self.crowd.ask(MARGIN, kind="close")
        self.crowd.ask(MARGIN, kind="first", count=3)

    def run(self) -> Figures:
        """Measure everything once."""
        figures = {**spread("first", self.crowd.ask(MARGIN, kind="first", count=STREAMS)["late"])}
        figures |= self._idle("idle")
        for how in HOW:
            self.crowd.ask(MARGIN, kind="submit", count=CROWD)
            figures |= self._hold(how)
        return figures

    def _hold(self, how: str) -> Figures:
        before = resident(self.leaders["gateway"])
        began = time.perf_counter()
        self.crowd.ask(MARGIN, kind="open", stream=how == "stream")
        self._await_watchers()
        opened = time.perf_counter() - began
        figures = self._idle(how)
        grown = resident(self.leaders["gateway"]) - before
        told = self.crowd.ask(MARGIN, kind="cancel", count=ENDED)["late"]
        self.crowd.ask(MARGIN, kind="close")
        figures |= {f"{how}.open": opened, f"{how}.memory": grown, f"{how}.each": grown * 1000 / CROWD}
        return figures | spread(f"{how}.told", told)

    def _await_watchers(self) -> None:
        """Until the gateway knows of all who wait."""
        deadline = time.monotonic() + MARGIN
        while time.monotonic() < deadline:
            text = httpx.get(f"{self.stack.gateways[0].url}/metrics", timeout=MARGIN, trust_env=False).text
            if re.search(rf"^charonia_watchers {CROWD:.1f}$", text, re.MULTILINE):
                return
            time.sleep(LOOK)
        raise LocalError(f"not {CROWD} clients are waited for within {MARGIN:g} s")

    def _idle(self, how: str) -> Figures:
        meter = Meter(self.leaders)
        time.sleep(self.seconds)
        return {f"{how}.cpu.{name}": value / self.seconds for name, value in meter.read().items()}
