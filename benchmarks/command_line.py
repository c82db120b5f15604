"""Runs scenarios round after round, prints their figures and writes them as JSON."""

import argparse
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.gpu.sizes import SIZES
from benchmarks.harness.aims import AIMS, format_aims
from benchmarks.harness.instances import MOST_INSTANCES
from benchmarks.harness.private_stack import open_bench
from benchmarks.harness.report import Figure, Figures, describe, format_table, round_figure, summarize
from benchmarks.scenarios import NAMES, load_scenario
from deploy.local.errors import LocalError
from deploy.local.settings import ROOT
from deploy.local.terminal import say

RESULTS = Path(__file__).parent / "results"
PARTS = {"aims": ("core", "deliveries", "memory", "big", "files")}  # every other name is that of one scenario
OPTIONS = {  # the smallest, the largest and the default value, and what it means
    "rounds": (1, 100, 3, "how often everything is measured"),
    "seconds": (1, 300, 4.0, "of each part of a round"),
    "rows": (100_000, 100_000_000, 1_000_000, "big, retention: ended jobs, half of them old"),
    "queued": (0, 100_000_000, 100_000, "big: jobs that wait"),
    "jobs": (4_000, 1_000_000, 100_000, "memory: jobs in flight at the same time, in thousands"),
    "instances": (1, MOST_INSTANCES, MOST_INSTANCES, "gpu: of each service at most, beginning with one and doubling"),
    "minutes": (1, 120, 25, "gpu: begins no further part that would take longer; sustained: how long jobs come"),
}


def main() -> int:
    """Return the exit code."""
    options = read_options(sys.argv[1:])
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    (ROOT / ".charonia" / "bench").mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(dir=ROOT / ".charonia" / "bench"))
    try:
        measure(directory, options)
    except KeyboardInterrupt:
        say("Stopped.")
        return 130
    except (LocalError, TimeoutError) as error:
        sys.stderr.write(f"error: {error or type(error).__name__}\nThe logs are below {directory}.\n")
        return 1
    shutil.rmtree(directory)
    return 0


def measure(directory: Path, options: argparse.Namespace) -> None:
    """Run all parts of what is asked for, each on a stack of its own; print and write the result."""
    setup: dict[str, Any] = {"rounds": options.rounds, "seconds": options.seconds}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    facts: dict[str, Any] = {"what": options.what, "name": options.name, "at": now, "setup": setup}
    rounds: list[Figures] = [{} for _ in range(options.rounds)]
    partial = RESULTS / f"{options.name}.partial.json"  # what a run that fails or is killed leaves
    for name in PARTS.get(options.what, (options.what,)):
        scenario = load_scenario(name)
        say(f"{name}: starting a private stack and warming it up …")
        place, environment, write = directory / name, scenario.environment, scenario.write_models
        with open_bench(place, options, environment, write, **scenario.counts) as bench:
            facts |= {**describe(bench.stack), **facts}
            setup |= {**scenario.setup, **{option: getattr(options, option) for option in scenario.options}}
            wanted = rounds[:1] if scenario.once else rounds
            for number, (figures, found) in enumerate(zip(wanted, scenario.rounds(bench), strict=False), 1):
                figures |= found
                bench.stack.check()
                write_result(facts | bench.facts, rounds, partial)
                say(f"Round {number} of {len(wanted)} is done.")
            if scenario.check_jobs:
                bench.check_jobs()
            facts |= bench.facts
    result = summarize(rounds)
    say("\n".join(["", *summarize_result(options.what, result, facts), *format_table(result), ""]))
    write_result(facts, rounds, partial)
    partial.replace(RESULTS / f"{options.name}.json")
    say(f"Written to {(RESULTS / f'{options.name}.json').relative_to(ROOT)}.")


def write_result(facts: Mapping[str, Any], rounds: Sequence[Figures], file: Path) -> None:
    """Write the figures of the rounds so far, and what they depend on."""
    rounded = [{figure: round_figure(value) for figure, value in each.items()} for each in rounds if each]
    text = msgspec.json.encode({**facts, "figures": summarize(rounds), "rounds": rounded})
    file.write_bytes(msgspec.json.format(text, indent=2) + b"\n")


def summarize_result(what: str, result: Mapping[str, Figure], facts: Mapping[str, Any]) -> list[str]:
    """Return what stands above the table of figures."""
    if what == "aims":
        return [*format_aims(AIMS, result, facts["setup"]), ""]
    format_summary = load_scenario(what).summarize
    return [] if format_summary is None else [*format_summary(result, facts), ""]


def read_options(arguments: list[str]) -> argparse.Namespace:
    """Parse the command line; exit with an explanation if it is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("what", nargs="?", default="aims", choices=(*PARTS, *NAMES))
    parser.add_argument("--name", default=f"{datetime.now(UTC):%Y%m%d-%H%M%S}", help="of the file in results/")
    for name, (low, high, default, text) in OPTIONS.items():
        explanation = f"{text}; {low:,} to {high:,}; default {default:,}"
        parser.add_argument(f"--{name}", type=type(default), default=default, help=explanation)
    parser.add_argument("--size", choices=("auto", *SIZES), default="auto", help="gpu: of the models")
    options = parser.parse_args(arguments)
    for name, (low, high, *_) in OPTIONS.items():
        if not low <= getattr(options, name) <= high:
            parser.error(f"--{name} must be from {low:,} to {high:,}")
    if options.jobs % 1_000 or not options.name.replace("-", "").replace("_", "").isalnum():
        parser.error("--jobs must be a multiple of 1000, and --name may have letters, digits, - and _ only")
    return options
