"""Run a storm against a cluster of its own. The exit code is 0 if every promise was kept."""

import argparse
import secrets
import shutil
import sys
import tempfile
from pathlib import Path

from deploy.local.errors import LocalError
from deploy.local.settings import ROOT
from tests.cluster_storm.run import Plan, run
from tests.cluster_storm.server_faults import FAULTS
from tests.support.cluster.namespaces import is_inside, run_inside


def main() -> int:
    options = parse(sys.argv[1:])
    if not is_inside():
        return outside(options)
    directory: Path = options.directory

    def report(line: str) -> None:
        print(line, flush=True)
        with (directory / "report.txt").open("a") as file:
            print(line, file=file)

    plan = Plan(directory, options.seed, options.minutes * 60, options.rate, options.faults)
    return 1 if run(plan, report) else 0


def outside(options: argparse.Namespace) -> int:
    """Run the storm in namespaces of its own, and keep its logs unless every promise was kept."""
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    parent = ROOT / ".charonia"
    parent.mkdir(exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix=f"cluster-storm-{seed}-", dir=parent))
    repeat = f"--seed {seed} --minutes {options.minutes:g} --rate {options.rate:g} --faults {options.faults}"
    print(f"Storm on a cluster with {repeat}", flush=True)
    try:
        code = run_inside(["-m", "tests.cluster_storm", *repeat.split(), "--directory", str(directory)])
    except LocalError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if code == 0:
        shutil.rmtree(directory)
        print(f"Every promise was kept. Repeat it with: {repeat}")
    else:
        print(f"The storm failed, or did not run to its end. Logs: {directory}. Repeat it with: {repeat}")
    return code


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster_storm", description=__doc__)
    parser.add_argument("--seed", type=int, help="random seed; use that of an earlier storm to repeat it")
    parser.add_argument("--minutes", type=float, default=3.0, help="duration of the load (default: %(default)g)")
    parser.add_argument("--rate", type=float, default=10.0, help="jobs submitted per second (default: %(default)g)")
    parser.add_argument(
        "--faults", type=int, default=len(FAULTS), help="least faults of servers (default: %(default)d, each kind once)"
    )
    parser.add_argument("--directory", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
