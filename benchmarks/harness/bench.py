"""A private stack, the processes that put load on it, and what scenarios do with them."""

import argparse
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from benchmarks.harness.child_process import ChildProcess, Function
from benchmarks.harness.counters import CounterMeter
from benchmarks.harness.load_generator import run_closed, run_open, submit
from benchmarks.harness.processes import CpuMeter, SwitchMeter
from benchmarks.harness.receiver import Receiver
from benchmarks.harness.report import Figure, Figures
from benchmarks.harness.triton_client import call_triton
from common.postgres import sql
from deploy.local.errors import LocalError
from deploy.local.servers.postgres import DATABASE
from deploy.local.servers.server import Server
from deploy.local.stack import Stack

IN_FLIGHT = 64
RATE = 50  # jobs per second
SERVICES = ("gateway", "dispatcher", "notifier")
RECORDED_SECONDS = 30.0  # from a webhook's arrival until the database has it
POLL_SECONDS = 0.2
QUERIES = sql.load("benchmarks.harness")


class BenchmarkFailed(LocalError):
    """Jobs or webhooks were lost, refused or repeated, or a part ran out of work: its figures would mean nothing."""


@dataclass
class Bench:
    """`spans_port` is where a receiver of spans may listen; `closing` is left before the stack is stopped.

    While a `peer` runs in place of the services, its API on `peer_port` gets their load. `facts` go into the result.
    """

    stack: Stack
    options: argparse.Namespace
    spans_port: int
    closing: ExitStack
    children: dict[str, ChildProcess] = field(default_factory=dict)
    webhook_url: str = ""
    peer: Sequence[Server] = ()
    peer_port: int = 0
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def services(self) -> Sequence[Server]:
        """The processes that do the jobs, besides PostgreSQL, RabbitMQ and Triton."""
        return self.peer or self.stack.services

    @property
    def ports(self) -> list[int]:
        """Where jobs are submitted."""
        return [self.peer_port] if self.peer else [gateway.port for gateway in self.stack.gateways]

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
        pids = find_pids([*self.stack.servers, *self.services])
        return CpuMeter(pids | {name: self.child(name).pid for name in children})

    def count(self) -> CounterMeter:
        """Count what PostgreSQL does from now on."""
        return CounterMeter(self.stack.postgres, DATABASE, QUERIES)

    def measure_idle(self, seconds: float, *children: str) -> Figures:
        """Return CPU in ms per second while nothing is done."""
        meter = self.meter(*children)
        time.sleep(seconds)
        return meter.read(seconds)

    def call_triton(self, seconds: float, model: str = "echo", in_flight: int = IN_FLIGHT) -> Figures:
        """Keep calls of Triton under way, without Charonia."""
        address = self.stack.triton.grpc_address
        return self.run(call_triton, ["direct client"], seconds, model=model, address=address, in_flight=in_flight)

    def run_closed(
        self, seconds: float, model: str = "echo", more: Sequence[str] = (), in_flight: int = IN_FLIGHT
    ) -> Figures:
        """Keep jobs under way; measure the CPU time of `more` children too."""
        return self.run(run_closed, ["load", *more], seconds, model=model, ports=self.ports, in_flight=in_flight)

    def run_open(
        self, seconds: float, names: Sequence[str] = ("load",), model: str = "echo", rate: float = RATE
    ) -> Figures:
        """Submit `rate` jobs a second from the first of these children; measure the CPU time of all."""
        return self.run(run_open, names, seconds, model=model, ports=self.ports, rate=rate)

    def run(self, function: Function[Figures], names: Sequence[str], seconds: float, **arguments: Any) -> Figures:
        """Call a load in the first of these children, and measure the CPU time of all.

        Return its figures, the rate per second, CPU in ms and context switches per job, and how long it took.
        """
        meter, switches, began = self.meter(*names), SwitchMeter(find_pids(self.services)), time.monotonic()
        found = check(self.child(names[0]).call(function, seconds=seconds, **arguments))
        cpu = meter.read(found["jobs"]) | switches.read(found["jobs"])
        own = sum(cpu[f"cpu.{service.name}"] for service in self.services)
        took = time.monotonic() - began
        return {"rate": found.get("counted", 0) / seconds, **found, **cpu, "own": own, "took": took}

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


def find_pids(members: Sequence[Server]) -> dict[str, int]:
    """Return the process ids by name."""
    return {member.name: member.process.pid for member in members if member.process.pid is not None}


def check(found: Figures) -> Figures:
    """Return the figures; raise BenchmarkFailed if something was lost or repeated."""
    if found["failed"] or found.get("duplicates"):
        raise BenchmarkFailed(f"jobs, calls or webhooks failed, were lost or came twice: {found}")
    return found


@dataclass(frozen=True)
class Scenario:
    """Something to measure on a stack of its own. `rounds` warms up, and then yields the figures of each round.

    `setup` goes into the result, as do these `options` of the command line. `counts` are numbers of instances, if
    it is not one of each service. `write_models` fills the model repository, if it is not that of the demo.
    `summarize` returns lines that stand above the table. With `check_jobs` every job must have succeeded in the end by
    one attempt.
    """

    rounds: Callable[[Bench], Iterator[Figures]]
    setup: Mapping[str, Any]
    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    write_models: Callable[[Path, argparse.Namespace], None] | None = None
    summarize: Callable[[Mapping[str, Figure], Mapping[str, Any]], Iterable[str]] | None = None
    once: bool = False
    check_jobs: bool = False


def rotate(variants: Sequence[str]) -> Iterator[list[str]]:
    """Yield the variants for each round. Each round begins with another one, because tables grow."""
    while True:
        for first in range(len(variants)):
            yield [*variants[first:], *variants[:first]]
