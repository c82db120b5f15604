"""`python -m benchmarks`: measures a private stack on loopback; README.md says what the figures mean."""

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

from benchmarks import machine, report
from benchmarks.driver import Driver
from benchmarks.rounds import IN_FLIGHT, RATE, Bench
from deploy.local.errors import LocalError
from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.settings import ROOT, Settings
from deploy.local.stack import Stack
from deploy.local.terminal import say

RESULTS = Path(__file__).parent / "results"
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
    stack = Stack(replace(Settings.private(directory), durable=True))
    with ExitStack() as stopping:
        stopping.callback(stack.postgres.delete)  # its data may be elsewhere
        say("Starting a private stack …")
        stopping.enter_context(stack)
        direct = stopping.enter_context(Driver("benchmarks.direct", stack.triton.grpc_address))
        load = stopping.enter_context(Driver("benchmarks.load", stack.url, DEVELOPMENT_KEY))
        facts = {**_describe(options), **machine.describe(stack)}
        bench = Bench.of(stack, direct, load, options.seconds)
        say(f"Warming up; then {options.rounds} rounds of three times {options.seconds:g} s.")
        bench.warm_up()
        rounds = []
        for number in range(1, options.rounds + 1):
            rounds.append({**bench.run(), **bench.watch_idle()})
            stack.check()
            rates = {name: rounds[-1][f"{name}.rate"] for name in ("direct", "closed")}
            say(f"Round {number}: {rates['closed']:.0f} jobs/s, Triton directly {rates['direct']:.0f} calls/s")
    figures = report.summarise(rounds)
    say("\n" + "\n".join(report.lay_out(figures)) + "\n")
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{options.name}.json"
    file.write_bytes(report.write(facts, figures, rounds))
    say(f"Written to {file.relative_to(ROOT)}.")


def _describe(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "name": options.name,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "setup": {"in_flight": IN_FLIGHT, "rate": RATE, "rounds": options.rounds, "seconds": options.seconds},
    }


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, choices=range(1, 101), metavar="1…100")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each of a round's three parts; 1 to 300")
    parser.add_argument("--name", default=f"{datetime.now(UTC):%Y%m%d-%H%M%S}", help="of the file in results/")
    options = parser.parse_args()
    if not 1 <= options.seconds <= 300:
        parser.error("--seconds is from 1 to 300")
    if not options.name.replace("-", "").replace("_", "").isalnum():
        parser.error("--name has letters, digits, - and _ only")
    return options


if __name__ == "__main__":
    sys.exit(main())
