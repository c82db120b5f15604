"""Charonia and plain stacks of Celery + FastAPI and of Taskiq + Litestar in turns: the same jobs, load and servers.

Latencies in ms; CPU in ms and context switches per job. Ratios are Charonia's figure ÷ the peer's.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext

from benchmarks.harness.bench import IN_FLIGHT, Bench, Scenario, rotate
from benchmarks.harness.peer_stack import PEERS, install, open_peer
from benchmarks.harness.report import Figures, pick, with_prefix
from benchmarks.scenarios.speed import RATES, loads
from deploy.local.servers.server import Server

WARM_SECONDS = 3.0
OURS = "charonia"
SHOWN = ("accepted", "webhook", "cpu", "own", "switches", "rate")
COMPARED = ("webhook.p50", "webhook.p99", "own", "cpu.postgres", "cpu.rabbitmq", "rate")


def measure(bench: Bench) -> Iterator[Figures]:
    install()
    opened = {peer.name: open_peer(bench.stack, peer) for peer in PEERS}
    for order in rotate((OURS, *opened)):
        figures: Figures = {}
        for variant in order:
            with _run_instead(bench, *opened[variant]) if variant in opened else nullcontext():
                bench.run_closed(WARM_SECONDS)
                bench.run_open(1)
                for name, load in loads(bench).items():
                    figures |= with_prefix(f"{variant}.{name}", pick(load(), *SHOWN))
        for peer in opened:
            figures |= compare(figures, peer, [*RATES, "closed"])
        yield figures


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


SCENARIO = Scenario(measure, {"rates": list(RATES.values()), "in_flight": IN_FLIGHT}, check_jobs=True)
