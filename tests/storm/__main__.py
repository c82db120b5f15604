"""Run a storm against a stack of its own. The exit code is 0 if every promise was kept."""

import argparse
import secrets
import shutil
import sys
import tempfile
from pathlib import Path

from deploy.local.settings import ROOT
from tests.storm.run import Plan, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.storm", description=__doc__)
    parser.add_argument("--seed", type=int, help="random seed; use that of an earlier storm to repeat it")
    parser.add_argument("--minutes", type=float, default=3.0, help="duration of the load (default: %(default)g)")
    parser.add_argument("--rate", type=float, default=25.0, help="jobs submitted per second (default: %(default)g)")
    parser.add_argument("--in-flight", type=int, default=400, help="most jobs in progress (default: %(default)d)")
    parser.add_argument("--residency", action="store_true", help="with half of the memory that the models need")
    options = parser.parse_args()
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    parent = ROOT / ".charonia"
    parent.mkdir(exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix=f"storm-{seed}-", dir=parent))
    repeat = f"--seed {seed} --minutes {options.minutes:g} --rate {options.rate:g} --in-flight {options.in_flight}"
    repeat += " --residency" * options.residency
    print(f"Storm with {repeat}", flush=True)

    def report(line: str) -> None:
        print(line, flush=True)
        with (directory / "report.txt").open("a") as file:
            print(line, file=file)

    try:
        plan = Plan(directory, seed, options.minutes * 60, options.rate, options.in_flight, residency=options.residency)
        violations = run(plan, report)
    except BaseException:
        print(f"The storm could not run to its end. Logs: {directory}. Repeat it with: {repeat}")
        raise
    if violations:
        print(f"Violations: {len(violations)}. Report and logs: {directory}. Repeat it with: {repeat}")
        return 1
    shutil.rmtree(directory)
    print(f"Every promise was kept. Repeat it with: {repeat}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
