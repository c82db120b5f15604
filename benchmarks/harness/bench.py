"""A private stack, the processes that put load on it, and what scenarios do with them."""

import argparse
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx

from benchmarks.harness.child_process import ChildProcess, Function
from benchmarks.harness.load_generator import run_closed, run_open, submit
from benchmarks.harness.processes import CpuMeter
from benchmarks.harness.receiver import Receiver
from benchmarks.harness.report import Figures
from benchmarks.harness.triton_client import call_triton
from common.postgres import sql
from deploy.local.errors import LocalError
from deploy.local.ports import free_ports
from deploy.local.postgres import DATABASE
from deploy.local.settings import Settings
from deploy.local.stack import Stack

IN_FLIGHT = 64
RATE = 50  # jobs per second
SERVICES = ("gateway", "dispatcher", "notifier")
RECORDED_SECONDS = 30.0  # from a webhook's arrival until the database has it
POLL_SECONDS = 0.2
SLOW = Path(__file__).parents[1] / "models" / "slow.pbtxt"
SETTINGS = {"CHARONIA_RETENTION": str(10 * 365 * 86_400)}  # seconds: the stack removes nothing by itself
QUERIES = sql.load("benchmarks.harness")


class BenchmarkFailed(LocalError):
    """Jobs or webhooks were lost, refused or repeated, or a part ran out of work: its figures would mean nothing."""


@dataclass
class Bench:
    """`spans_port` is where a receiver of spans may listen; `closing` is left before the stack is stopped."""

    stack: Stack
    options: argparse.Namespace
    spans_port: int
    closing: ExitStack
    children: dict[str, ChildProcess] = field(default_factory=dict)
    webhook_url: str = ""

    @property
    def seconds(self) -> float:
        """How long each part of a round takes."""
        return float(self.options.seconds)

    def child(self, name: str) -> ChildProcess:
        """Return the process of this name; start it if it is not there yet."""
        if name not in self.children:
            self.children[name] = ChildProcess()
            self.closing.callback(self.children[name].stop)
        return self.children[name]

    def meter(self, *children: str) -> CpuMeter:
        """Measure the CPU time of the stack's processes and of these children from now on."""
        members = (*self.stack.servers, *self.stack.services)
        pids = {member.name: member.process.pid for member in members if member.process.pid is not None}
        return CpuMeter(pids | {name: self.child(name).pid for name in children})

    def measure_idle(self, seconds: float, *children: str) -> Figures:
        """Return CPU in ms per second while nothing is done."""
        meter = self.meter(*children)
        time.sleep(seconds)
        return meter.read(seconds)

    def call_triton(self, seconds: float, model: str = "echo") -> Figures:
        """Keep IN_FLIGHT calls of Triton under way, without Charonia."""
        address = self.stack.triton.grpc_address
        return self._run(call_triton, ["direct client"], seconds, model=model, address=address, in_flight=IN_FLIGHT)

    def run_closed(self, seconds: float, model: str = "echo", more: Sequence[str] = ()) -> Figures:
        """Keep IN_FLIGHT jobs under way; measure the CPU time of `more` children too."""
        ports = [gateway.port for gateway in self.stack.gateways]
        return self._run(run_closed, ["load", *more], seconds, model=model, ports=ports, in_flight=IN_FLIGHT)

    def run_open(
        self, seconds: float, names: Sequence[str] = ("load",), model: str = "echo", rate: float = RATE
    ) -> Figures:
        """Submit `rate` jobs a second from the first of these children; measure the CPU time of all."""
        return self._run(run_open, names, seconds, model=model, port=self.stack.settings.gateway_port, rate=rate)

    def _run(self, function: Function[Figures], names: Sequence[str], seconds: float, **arguments: Any) -> Figures:
        """Return the function's figures, the rate per second, and CPU in ms per job."""
        meter = self.meter(*names)
        found = check(self.child(names[0]).call(function, seconds=seconds, **arguments))
        cpu = meter.read(found["jobs"])
        own = sum(cpu[f"cpu.{name}"] for name in SERVICES)
        return {"rate": found.get("counted", 0) / seconds, **found, **cpu, "own": own}

    def submit(self, port: int | None = None, model: str = "echo", **arguments: Any) -> Figures:
        """Submit jobs and do not wait for their webhooks, which go to the receiver; see load_generator.submit()."""
        if not self.webhook_url:
            self.webhook_url = self.child("receiver").call(Receiver.listen)
        arguments |= {"port": port or self.stack.settings.gateway_port, "model": model}
        return check(self.child("submissions").call(submit, webhook_url=self.webhook_url, **arguments))

    def await_webhooks(self, count: int, seconds: float) -> dict[int, float]:
        """Return when each webhook arrived at the receiver, by its number; each must arrive once."""
        arrived, duplicates = self.child("receiver").call(Receiver.take_arrived, count=count, seconds=seconds)
        check({"jobs": count, "failed": count - len(arrived), "duplicates": duplicates})
        return arrived

    def count_inferences(self, model: str) -> list[int]:
        """Return how many requests Triton has run, and in how many batches."""
        text = httpx.get(self.stack.triton.metrics_url, trust_env=False).text
        form = r'^nv_inference_%s{.*model="%s".*} (\d+)'
        found = (re.findall(form % (name, model), text, re.MULTILINE) for name in ("count", "exec_count"))
        return [sum(map(int, counts)) for counts in found]

    def query(self, name: str) -> list[int]:
        """Return the numbers that a query returns."""
        return [int(number) for number in self.stack.postgres.query(QUERIES[name], DATABASE).split("|")]

    def check_jobs(self) -> None:
        """Raise BenchmarkFailed unless each job in the database succeeded by one attempt, and one delivery."""
        names = "unsuccessful jobs, repeated attempts, repeated events, unsuccessful or repeated deliveries"
        self.await_none("count_faults", RECORDED_SECONDS, names)

    def await_none(self, query: str, seconds: float, names: str) -> None:
        """Wait until a query returns nothing but zeros; raise BenchmarkFailed if it still counts some."""
        deadline = time.monotonic() + seconds
        while any(counts := self.query(query)):
            if time.monotonic() > deadline:
                raise BenchmarkFailed(f"the database has {counts} {names}")
            time.sleep(POLL_SECONDS)


def check(found: Figures) -> Figures:
    """Return the figures; raise BenchmarkFailed if something was lost or repeated."""
    if found["failed"] or found.get("duplicates"):
        raise BenchmarkFailed(f"jobs, calls or webhooks failed, were lost or came twice: {found}")
    return found


@dataclass(frozen=True)
class Scenario:
    """Something to measure on a stack of its own. `rounds` warms up, and then yields the figures of each round.

    `setup` goes into the result, as do these `options` of the command line. `counts` are numbers of instances, if it is
    not one of each service. With `check_jobs` every job must have succeeded in the end by one attempt.
    """

    rounds: Callable[[Bench], Iterator[Figures]]
    setup: Mapping[str, Any]
    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    once: bool = False
    check_jobs: bool = False


def rotate(variants: Sequence[str]) -> Iterator[list[str]]:
    """Yield the variants for each round. Each round begins with another one, because tables grow."""
    while True:
        for first in range(len(variants)):
            yield [*variants[first:], *variants[:first]]


@contextmanager
def open_bench(
    directory: Path, options: argparse.Namespace, environment: Mapping[str, str], **counts: int
) -> Iterator[Bench]:
    """Start a stack with one instance of each service, unless `counts` say otherwise; delete its data at the end.

    `environment` may contain {spans_port}.
    """
    private, (spans_port,) = Settings.private(directory, **counts), free_ports(1)
    variables = {name: value.format(spans_port=spans_port) for name, value in environment.items()}
    models, slow = directory / "models", directory / "models" / "slow"
    slow.mkdir(parents=True)  # the program of `work` with a configuration of its own
    (slow / "config.pbtxt").symlink_to(SLOW)
    (slow / "1").symlink_to(private.model_repository / "work" / "1")
    for model in private.model_repository.iterdir():
        (models / model.name).symlink_to(model)
    stack = Stack(replace(private, durable=True, environment=SETTINGS | variables, model_repository=models))
    with ExitStack() as closing:
        closing.callback(stack.postgres.delete)  # its data may be elsewhere
        yield Bench(closing.enter_context(stack), options, spans_port, closing)
