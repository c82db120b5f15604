"""Finds a variable on the command line of make that none of its targets takes.

`python -m deploy.local.variables --given SCOPE --targets key` prints what is wrong, or nothing. It needs only Python's
standard library, because it runs before anything is installed.
"""

import argparse
from collections.abc import Sequence
from difflib import get_close_matches

from deploy.local.settings import COUNTS, OPTIONAL_PATHS, PASSED, PATHS, PORTS

ALWAYS = ("PYTHON", "VENV", "TRITON_VENV")  # of every target, because most install first
RUNNING = ("STACK_DIR", "PORT_BASE")  # which stack
STACK = tuple(name.upper() for name in (*PATHS, *OPTIONAL_PATHS, *COUNTS, *PORTS, "port_base"))
INTERNAL = ("RUN", "STAMP")  # of the Makefile itself; a test sets them
PREFIXES = (*PASSED, "PIP_")
OWN = {
    "up": (*STACK, "WATCH"),
    "demo": STACK,
    "key": ("TENANT", "SCOPES", "MODEL", "NAME", *RUNNING),
    "reload": ("MODEL", *RUNNING),
    "restart": ("SERVICE", *RUNNING),
    "run": ("SERVICE", *RUNNING),
    **dict.fromkeys(("test", "test-fast", "bench", "images", "storm", "cluster-storm", "mutants", "ci"), ("ARGS",)),
}


def find_mistake(given: Sequence[str], targets: Sequence[str]) -> str:
    """Return what is wrong with the first variable that no target takes; an empty text if all are right."""
    taken = [*(name for target in targets for name in OWN.get(target, ())), *ALWAYS]
    for name in given:
        if name in (*taken, *INTERNAL) or name.startswith(PREFIXES):
            continue
        near = get_close_matches(name.upper(), taken, 1)
        meant = f"did you mean {near[0]}? " if near else ""
        return f"`{' '.join(['make', *targets])}` takes no variable {name}; {meant}it takes {', '.join(taken)}"
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m deploy.local.variables", description=__doc__)
    parser.add_argument("--given", nargs="*", default=[], help="the names of the variables")
    parser.add_argument("--targets", nargs="*", default=[], help="the targets of make")
    options = parser.parse_args()
    print(find_mistake(options.given, options.targets), end="")


if __name__ == "__main__":
    main()
