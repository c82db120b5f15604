"""Runs the table of seeded bugs: `make mutants`, or `make mutants ARGS=fence` for bugs with this word.

A word may also be in the path of the file, as in `make mutants ARGS=openai`.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tests.mutants.table import PAGE, ROOT, Mutant, read_mutants, render_page

LIMIT = 300.0  # seconds for one test
LINKS = (".venv", ".charonia")  # what the copy shares with this checkout
PASSED, CAUGHT = "passed", "FAILED tests/"  # an ERROR is outside of the test: the bug does not even start


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("words", nargs="*", help="run only bugs whose description or file has one of these words")
    parser.add_argument("--page", action="store_true", help=f"only write {PAGE.relative_to(ROOT)}")
    options = parser.parse_args()
    mutants = read_mutants()
    PAGE.write_text(render_page(mutants))
    if options.page:
        return 0
    chosen = [each for each in mutants if not options.words or has_word(each, options.words)]
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        copy = Path(directory) / "copy"
        copy_checkout(copy)
        wrong = [*check_tests(copy, {each.test for each in chosen}), *run_mutants(copy, chosen)]
    print(f"\n{len(chosen)} bugs, {len(wrong)} problems", *wrong, sep="\n")
    return 1 if wrong else 0


def has_word(mutant: Mutant, words: Iterable[str]) -> bool:
    text = f"{mutant.bug} {mutant.path}".casefold()
    return any(word.casefold() in text for word in words)


def copy_checkout(copy: Path) -> None:
    """Copy the files that git knows or does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        if (source := ROOT / name).is_file() and name not in LINKS:
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy / name, follow_symlinks=False)
    for name in LINKS:
        (copy / name).symlink_to((ROOT / name).resolve())


def check_tests(copy: Path, tests: Iterable[str]) -> list[str]:
    """Run all tests without a bug. Return a problem if they do not pass."""
    outcome = run_tests(copy, *sorted(tests))
    return [] if outcome == PASSED else [f"without a bug, the tests do not pass: {outcome}"]


def run_mutants(copy: Path, mutants: Iterable[Mutant]) -> list[str]:
    """Run each bug's test. Return the bugs that were not caught."""
    problems = []
    for mutant in mutants:
        path = copy / mutant.path
        source = path.read_text()
        path.write_text(mutant.apply(source))
        outcome = run_tests(copy, mutant.test)
        path.write_text(source)
        caught = outcome.startswith(CAUGHT)
        print(f"{'caught' if caught else 'MISSED'}  {mutant.bug}\n        {outcome}", flush=True)
        if not caught:
            problems.append(f"missed: {mutant.bug}")
    return problems


def run_tests(copy: Path, *tests: str) -> str:
    """Return how the tests ended: PASSED, or the line of the first that did not pass."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    try:
        run = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=LIMIT * len(tests), check=False)
    except subprocess.TimeoutExpired:
        return f"FAILED {tests[0]} - not within {LIMIT:g} s"  # a bug may also show by waiting for ever
    if run.returncode == 0:
        return PASSED
    lines = [line for line in run.stdout.splitlines() if line.startswith((CAUGHT, "ERROR tests/"))]
    return lines[0] if lines else run.stdout[-500:] + run.stderr[-500:]


if __name__ == "__main__":
    sys.exit(main())
