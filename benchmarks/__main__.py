"""`python -m benchmarks [aims|speed|…]` measures private stacks; see README"""

import argparse
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import aims, comparison, ledger, machine, report
from benchmarks.place import Options
from benchmarks.report import Figure
from benchmarks.sections import SECTIONS, open_section
from benchmarks.speed import Figures
from deploy.local.errors import LocalError
from deploy.local.settings import ROOT
from deploy.local.terminal import say

RESULTS = Path(__file__).parent / "results"
PLACE = ROOT / ".charonia" / "bench"
AIMS = "aims"
PARTS = ("core", "deliveries", "memory", "big")  # the sections of `aims`
ROUNDS, SECONDS = 5, 5.0
AIMS_ROUNDS, AIMS_SECONDS = 3, 4.0  # less than ten minutes in all


class Measured:
    """Figures of all sections so far; `rounds` holds each round's own, by number."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}
        self.setup: dict[str, Any] = {}
        self.figures: dict[str, Figure] = {}
        self.rounds: list[Figures] = []
        self.titles: dict[str, str] = {}
        self.groups: dict[str, str] = {}

    def add(self, rounds: list[Figures]) -> None:
        self.figures |= report.summarise(rounds)
        self.rounds += [{} for _ in range(len(rounds) - len(self.rounds))]
        for number, figures in enumerate(rounds):
            self.rounds[number] |= figures


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
        sys.stderr.write(f"error: {error}\nThe logs are below {directory}.\n")
        return 1
    shutil.rmtree(directory)
    return code


def _measure(directory: Path, options: argparse.Namespace) -> None:
    measured = Measured()
    for name in PARTS if options.what == AIMS else (options.what,):
        _measure_section(name, directory / name, options, measured)
    facts = {"what": options.what, "name": options.name, "at": datetime.now(UTC).isoformat(timespec="seconds")}
    facts |= {"setup": {"rounds": options.rounds, "seconds": options.seconds} | measured.setup} | measured.facts
    written = report.write(facts, measured.figures, measured.rounds)
    _tell(options.what, measured, msgspec.json.decode(written, type=comparison.Result))
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{options.name}.json"
    file.write_bytes(written)
    say(f"Written to {file.relative_to(ROOT)}.")


def _measure_section(name: str, directory: Path, options: argparse.Namespace, measured: Measured) -> None:
    say(f"{name}: starting a private stack …")
    section, rounds = SECTIONS[name], 1 if SECTIONS[name].once else options.rounds
    with open_section(name, directory, Options(options.seconds, options.rows, options.queued, options.jobs)) as (
        stack,
        bench,
    ):
        measured.facts = measured.facts or machine.describe(stack)
        measured.setup |= section.setup | {each: getattr(options, each) for each in section.options}
        measured.titles |= bench.titles
        measured.groups |= bench.groups
        say(f"Warming up; then {rounds} rounds with parts of {options.seconds:g} s.")
        bench.warm_up()
        found: list[Figures] = []
        for number in range(1, rounds + 1):
            found.append(bench.run())
            stack.check()
            say(
                f"Round {number}: "
                + ", ".join(f"{name} {found[-1][name]:.4g}" for name in bench.heads if name in found[-1])
            )
        if section.whole:
            ledger.check(stack)
    measured.add(found)


def _tell(what: str, measured: Measured, result: comparison.Result) -> None:
    """Print the tables."""
    titles: Mapping[str, str] = measured.titles
    if what == AIMS:
        titles = aims.name_figures(aims.AIMS, measured.setup)
        lines = [*aims.lay_out(aims.AIMS, measured.figures, measured.setup), ""]
        lines += report.lay_out(measured.figures, {}, {aims.CPU: measured.groups[aims.CPU]})
    else:
        lines = [*report.lay_out(measured.figures, titles, measured.groups)]
    last = comparison.find_last(what, RESULTS)
    lines += ["", *comparison.compare(last, result, titles)] if last else ["", "No committed result to compare with."]
    say("\n" + "\n".join(lines) + "\n")


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("what", nargs="?", default=AIMS, choices=(AIMS, *SECTIONS))
    parser.add_argument(
        "--rows", type=int, default=1_000_000, help="of big and retention: ended jobs, half of them old"
    )
    parser.add_argument("--queued", type=int, default=100_000, help="of big: jobs that wait")
    parser.add_argument("--jobs", type=int, default=100_000, help="of memory: in flight at the same time")
    parser.add_argument("--rounds", type=int, choices=range(1, 101), metavar="1…100", help="3 of aims, else 5")
    parser.add_argument("--seconds", type=float, help="of each part of a round; 1 to 300; 4 of aims, else 5")
    parser.add_argument("--name", default=f"{datetime.now(UTC):%Y%m%d-%H%M%S}", help="of the file in results/")
    options = parser.parse_args()
    rounds, seconds = (AIMS_ROUNDS, AIMS_SECONDS) if options.what == AIMS else (ROUNDS, SECONDS)
    options.rounds = rounds if options.rounds is None else options.rounds
    options.seconds = seconds if options.seconds is None else options.seconds
    if not 1 <= options.seconds <= 300:
        parser.error("--seconds is from 1 to 300")
    if not 100_000 <= options.rows <= 100_000_000:
        parser.error("--rows is from 100000 to 100000000")
    if not 4_000 <= options.jobs <= 1_000_000 or options.jobs % 4_000:
        parser.error("--jobs is from 4000 to 1000000, in steps of 4000")
    if not options.name.replace("-", "").replace("_", "").isalnum():
        parser.error("--name has letters, digits, - and _ only")
    return options


if __name__ == "__main__":
    sys.exit(main())
