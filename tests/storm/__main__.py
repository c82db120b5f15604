"""`python -m tests.storm`: storms over a stack of its own; exit code 0 where no promise was broken."""

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
    parser.add_argument("--seed", type=int, help="of an earlier storm, to repeat it")
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--rate", type=float, default=25.0, help="jobs a second")
    parser.add_argument("--in-flight", type=int, default=400, help="jobs at a time")
    given = parser.parse_args()
    seed = secrets.randbelow(1_000_000) if given.seed is None else given.seed
    home = ROOT / ".charonia"
    home.mkdir(exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix=f"storm-{seed}-", dir=home))
    again = f"--seed {seed} --minutes {given.minutes:g} --rate {given.rate:g} --in-flight {given.in_flight}"
    print(f"storm {again}", flush=True)

    def tell(line: str) -> None:
        print(line, flush=True)
        with (directory / "report.txt").open("a") as file:
            print(line, file=file)

    try:
        violations = run(Plan(directory, seed, given.minutes * 60, given.rate, given.in_flight), tell)
    except BaseException:
        print(f"the storm itself broke; logs in {directory}; to repeat it: {again}")
        raise
    if violations:
        print(f"{len(violations)} violations; report and logs in {directory}; to repeat it: {again}")
        return 1
    shutil.rmtree(directory)
    print(f"every promise was kept; to repeat it: {again}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
