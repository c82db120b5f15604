"""`python -m benchmarks [speed|retention|notifier|waiting|fairness|tracing]` measures a private stack; see README"""

import argparse
import shutil
import signal
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import fairness, machine, notifier, report, tracing
from benchmarks.driver import Driver
from benchmarks.fairness import Fairness
from benchmarks.notifier import Notifier
from benchmarks.retention import RETENTION, Retention, fill
from benchmarks.speed import IN_FLIGHT, RATE, Speed
from benchmarks.tracing import Tracing
from benchmarks.waiting import CROWD, Waiting
from deploy.local.errors import LocalError
from deploy.local.ports import HOST, free_ports
from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.settings import ROOT, Settings
from deploy.local.stack import Stack
from deploy.local.terminal import say

RESULTS = Path(__file__).parent / "results"
STARTUP = 30.0  # seconds
SETUPS: dict[str, dict[str, Any]] = {
    "speed": {"rate": RATE, "in_flight": IN_FLIGHT},
    "retention": {"rate": RATE},
    "waiting": {"crowd": CROWD},
    "notifier": {"rate": notifier.RATE, "endpoints": notifier.SIZES, "events": notifier.EVENTS},
    "tracing": {"rate": RATE, "in_flight": IN_FLIGHT},
    "fairness": {"rate": fairness.RATE, "jobs": fairness.JOBS, "ms": fairness.MS},
}
PLACE = ROOT / ".charonia" / "bench"


def main() -> int:
    options = _read_options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    PLACE.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(dir=PLACE))
    code = 0
    try:
        _measure(directory, options)
    except KeyboardInterrupt:
        say("Stopped.")
        code = 130
    except LocalError as error:
        sys.stderr.write(f"error: {error}\nThe logs are in {directory / 'log'}.\n")
        return 1
    shutil.rmtree(directory)
    return code


def _measure(directory: Path, options: argparse.Namespace) -> None:
    environment = {"CHARONIA_RETENTION": str(10 * 365 * 86_400)}  # what is removed, and when, is ours to say
    (port,) = free_ports(1)
    if options.what == "tracing":
        environment |= tracing.name_collector(port)
    others = {"gateways": 0, "dispatchers": 0} if options.what == "notifier" else {}
    stack = Stack(replace(Settings.private(directory, **others), durable=True, environment=environment))
    with ExitStack() as stopping:
        stopping.callback(stack.postgres.delete)  # its data may be elsewhere
        say("Starting a private stack …")
        stopping.enter_context(stack)
        bench = _open(stack, options, stopping, port)
        facts = {**_describe(options), **machine.describe(stack)}
        say(f"Warming up; then {options.rounds} rounds with parts of {options.seconds:g} s.")
        bench.warm_up()
        rounds = []
        for number in range(1, options.rounds + 1):
            rounds.append(bench.run())
            stack.check()
            say(f"Round {number}: " + ", ".join(f"{name} {rounds[-1][name]:.4g}" for name in bench.heads))
    figures = report.summarise(rounds)
    say("\n" + "\n".join(report.lay_out(figures, bench.titles, bench.groups)) + "\n")
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{options.name}.json"
    file.write_bytes(report.write(facts, figures, rounds))
    say(f"Written to {file.relative_to(ROOT)}.")


Bench = Speed | Retention | Notifier | Waiting | Fairness | Tracing


def _open(stack: Stack, options: argparse.Namespace, stopping: ExitStack, port: int) -> Bench:
    """What is to be measured, with its drivers, which end with `stopping`; `port` is the collector's of traces."""
    if options.what == "notifier":
        connections = stack.postgres.url, stack.rabbitmq.url, stack.environment["CHARONIA_ENCRYPTION_KEYS"]
        receiver = stopping.enter_context(Driver("benchmarks.receiver"))
        bells = stopping.enter_context(Driver("benchmarks.doorbells", *connections))
        leaders = _list_leaders(stack, load=bells, receiver=receiver)
        url = receiver.ask(STARTUP, kind="url")["url"]
        return Notifier(stack, bells, receiver, leaders, options.seconds, url)
    if options.what == "waiting":
        crowd = stopping.enter_context(Driver("benchmarks.crowd", HOST, str(stack.gateways[0].port), DEVELOPMENT_KEY))
        return Waiting(stack, crowd, _list_leaders(stack, crowd=crowd), options.seconds)
    if options.what == "fairness":
        keys = DEVELOPMENT_KEY, fairness.add_key(stack, "flooding")
        probe, flood = (stopping.enter_context(Driver("benchmarks.flood", stack.url, key)) for key in keys)
        return Fairness(probe, flood, _list_leaders(stack, probe=probe, flood=flood), options.seconds)
    load = stopping.enter_context(Driver("benchmarks.load", stack.url, DEVELOPMENT_KEY))
    if options.what == "tracing":
        sink = stopping.enter_context(Driver("benchmarks.sink", str(port)))
        return Tracing(stack, load, sink, options.seconds)
    if options.what == "speed":
        direct = stopping.enter_context(Driver("benchmarks.direct", stack.triton.grpc_address))
        return Speed(direct, load, _list_leaders(stack, load=load, **{"direct client": direct}), options.seconds)
    say(f"Filling the tables with {options.rows} jobs …")
    fill(stack, options.rows)
    purging = stopping.enter_context(Driver("benchmarks.purging", stack.postgres.url, str(RETENTION)))
    return Retention(load, purging, _list_leaders(stack, load=load, purge=purging), options.seconds)


def _list_leaders(stack: Stack, **drivers: Driver) -> dict[str, int]:
    """The processes whose CPU time is told, by name."""
    members = {member.name: member.process.pid for member in (*stack.servers, *stack.services)}
    running = {name: pid for name, pid in members.items() if pid is not None}
    return running | {name: driver.pid for name, driver in drivers.items()}


def _describe(options: argparse.Namespace) -> dict[str, Any]:
    setup = {"rounds": options.rounds, "seconds": options.seconds}
    return {
        "name": options.name,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "setup": setup | SETUPS[options.what] | ({"rows": options.rows} if options.what == "retention" else {}),
    }


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("what", nargs="?", default="speed", choices=SETUPS)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of retention: ended jobs, half of them old")
    parser.add_argument("--rounds", type=int, default=5, choices=range(1, 101), metavar="1…100")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each part of a round; 1 to 300")
    parser.add_argument("--name", default=f"{datetime.now(UTC):%Y%m%d-%H%M%S}", help="of the file in results/")
    options = parser.parse_args()
    if not 1 <= options.seconds <= 300:
        parser.error("--seconds is from 1 to 300")
    if not 100_000 <= options.rows <= 100_000_000:
        parser.error("--rows is from 100000 to 100000000")
    if not options.name.replace("-", "").replace("_", "").isalnum():
        parser.error("--name has letters, digits, - and _ only")
    return options


if __name__ == "__main__":
    sys.exit(main())
