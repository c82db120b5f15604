"""Upgrade a stack of the last release under load. The exit code is 0 if every promise was kept."""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import get_args

from deploy.local.settings import ROOT
from tests.upgrade.next_release import Migration, make_next_release
from tests.upgrade.release import check_migrations, install_release, read_last_release
from tests.upgrade.run import Plan, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.upgrade", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="random seed of the load (default: %(default)d)")
    parser.add_argument("--rate", type=float, default=20.0, help="jobs submitted per second (default: %(default)g)")
    choices = get_args(Migration)
    parser.add_argument("--migration", choices=choices, default="none", help="add one to this tree, as a try")
    parser.add_argument("--together", action="store_true", help="replace all kinds of services at once, as Helm does")
    options = parser.parse_args()
    release = read_last_release()
    check_migrations(release)
    parent = ROOT / ".charonia"
    parent.mkdir(exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="upgrade-", dir=parent))
    print(f"Upgrade from {release.version} ({release.commit[:8]}) to this tree, migration: {options.migration}")
    old = install_release(release, directory / "old")
    new = make_next_release(options.migration, directory / "new")
    plan = Plan(directory, old, new, options.migration, options.seed, options.rate, options.together)
    violations = run(plan, lambda line: print(line, flush=True))
    if violations:
        print(f"Violations: {len(violations)}. Logs: {directory}")
        return 1
    shutil.rmtree(directory)
    print("Every promise was kept.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
