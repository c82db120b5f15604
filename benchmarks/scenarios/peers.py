"""Charonia and plain stacks of Celery + FastAPI and of Taskiq + Litestar in turns: the same jobs, load and servers.

Latencies in ms; CPU in ms and context switches per job. Ratios are Charonia's figure ÷ the peer's. `work.ratio` is the
rate of a model that is the bottleneck, as a share of Triton alone.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext

from benchmarks.harness.bench import IN_FLIGHT, Bench, Scenario, rotate
from benchmarks.harness.load_generator import WORK_MS
from benchmarks.harness.peer_stack import PEERS, install, open_peer
from benchmarks.harness.report import Figures, pick, with_prefix
from benchmarks.scenarios.speed import RATES, loads
from deploy.local.servers.server import Server

WARM_SECONDS = 3.0
BURST = 2000  # jobs, submitted as fast as the API takes them
BURST_SECONDS = 60.0
OURS = "charonia"
SHOWN = ("accepted", "webhook", "cpu", "own", "switches", "rate")
COMPARED = ("webhook.p50", "webhook.p99", "own", "cpu.postgres", "cpu.rabbitmq", "rate")


def measure(bench: Bench) -> Iterator[Figures]:
    install()
    opened = {peer.name: open_peer(bench.stack, peer) for peer in PEERS}
    for order in rotate((OURS, *opened)):
        direct = bench.call_triton(bench.seconds, "work")["rate"]
        figures: Figures = {"triton.work.rate": direct}
        for variant in order:
            with _run_instead(bench, *opened[variant]) if variant in opened else nullcontext():
                bench.run_closed(WARM_SECONDS)
                bench.run_closed(1, "work")
                bench.run_open(1)
                for name, load in list_loads(bench).items():
                    figures |= with_prefix(f"{variant}.{name}", pick(load(), *SHOWN))
            figures[f"{variant}.work.ratio"] = figures[f"{variant}.work.rate"] / direct
        for peer in opened:
            figures |= compare(figures, peer, [*RATES, "closed", "work", "burst"])
        yield figures


def list_loads(bench: Bench) -> dict[str, Callable[[], Figures]]:
    """Return those of `speed`, one on a model that is the bottleneck, and many jobs at once."""

    def run_work() -> Figures:
        return pick(bench.run_closed(bench.seconds, "work"), "rate", "own")

    def run_burst() -> Figures:
        begin = time.perf_counter()
        bench.submit(bench.ports[0], connections=IN_FLIGHT, requests=BURST)
        return {"rate": BURST / (max(bench.await_webhooks(BURST, BURST_SECONDS).values()) - begin)}

    return loads(bench) | {"work": run_work, "burst": run_burst}


def compare(figures: Mapping[str, float], peer: str, loads: Sequence[str]) -> Figures:
    """Return the ratios of the figures that both have under these loads, unless the peer's is zero."""
    ratios: Figures = {}
    for name in (f"{load}.{kind}" for load in loads for kind in COMPARED):
        ours, theirs = figures.get(f"{OURS}.{name}"), figures.get(f"{peer}.{name}")
        if ours is not None and theirs:
            ratios[f"ratio.{peer}.{name}"] = ours / theirs
    return ratios


@contextmanager
def _run_instead(bench: Bench, processes: Sequence[Server], port: int) -> Iterator[None]:
    """Run the peer in place of the services, which start anew afterwards."""
    for service in reversed(bench.stack.services):
        service.stop()
    try:
        for process in processes:
            process.start()
        bench.peer, bench.peer_port = processes, port
        yield
    finally:
        bench.peer = ()
        for process in reversed(processes):
            process.stop()
    bench.stack.start_services()


SETUP = {"rates": list(RATES.values()), "in_flight": IN_FLIGHT, "burst": BURST, "work_ms": WORK_MS}
SCENARIO = Scenario(measure, SETUP, check_jobs=True)
