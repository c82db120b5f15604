"""Finds a variable on the command line of make that none of its targets takes.

`python -m deploy.local.variables --given SCOPE --targets key` prints what is wrong, or nothing. It needs only Python's
standard library, because it runs before anything is installed.
"""

import argparse
import re
from collections.abc import Sequence
from difflib import get_close_matches

from deploy.local.settings import COUNTS, OPTIONAL_PATHS, PASSED, PATHS, PORTS, ROOT

ALWAYS = ("PYTHON", "VENV", "TRITON_VENV")  # of every target, because most install first
RUNNING = ("STACK_DIR", "PORT_BASE")  # which stack
STACK = tuple(name.upper() for name in (*PATHS, *OPTIONAL_PATHS, *COUNTS, *PORTS, "language_models", "port_base"))
INTERNAL = ("RUN", "STAMP")  # of the Makefile itself; a test sets them
SERVING = ("up", "demo", "demo-llm", "run")  # the targets that start services with the settings of who calls make
PREFIX = "CHARONIA_"
REFERENCE = "docs/reference/configuration.md"  # generated from the classes of settings, which need installed packages
OWN = {
    "up": (*STACK, "WATCH"),
    "demo": STACK,
    "demo-llm": STACK,
    "key": ("TENANT", "SCOPES", "MODEL", "NAME", *RUNNING, "CHARONIA_DATABASE_URL", "CHARONIA_ENCRYPTION_KEYS"),
    "reload": ("MODEL", *RUNNING, "CHARONIA_BOOTSTRAP_KEY", "CHARONIA_TRITON_REPOSITORY_KEY"),
    "restart": ("SERVICE", *RUNNING),
    "run": ("SERVICE", *RUNNING),
    "migrate": ("CHARONIA_DATABASE_URL", "CHARONIA_ROLE_PASSWORDS"),
    **dict.fromkeys(
        ("test", "test-fast", "bench", "images", "storm", "cluster-storm", "upgrade-test", "mutants", "ci"), ("ARGS",)
    ),
}


def find_mistake(given: Sequence[str], targets: Sequence[str]) -> str:
    """Return what is wrong with the first variable that no target takes; an empty text if all are right."""
    taken = [*(name for target in targets for name in OWN.get(target, ())), *ALWAYS]
    serving = not set(SERVING).isdisjoint(targets)
    settings = read_settings() if serving else []
    prefixes = ("PIP_", *(each for each in PASSED if serving and not (settings and each == PREFIX)))
    for name in given:
        if name not in (*taken, *INTERNAL, *settings) and not name.startswith(prefixes):
            wrong = f"`{' '.join(['make', *targets])}` takes no variable {name}; "
            if not name.upper().startswith(PASSED):
                return wrong + _suggest(name, taken) + f"it takes {', '.join(taken)}"
            if not serving:
                return wrong + f"only {', '.join(f'`make {each}`' for each in SERVING)} take settings of the services"
            return wrong + _suggest(name, settings) + f"{REFERENCE} has all settings"
    return ""


def read_settings() -> list[str]:
    """Return the variables of the services, from the reference of the configuration; none if it is not there."""
    file = ROOT / REFERENCE
    return re.findall(rf"^\| `({PREFIX}\w+)`", file.read_text(), re.MULTILINE) if file.exists() else []


def _suggest(name: str, names: Sequence[str]) -> str:
    """Return a question for the nearest of the names, if one is near. What all begin with makes none near."""
    rests = {each.removeprefix(PREFIX): each for each in names}
    near = get_close_matches(name.upper().removeprefix(PREFIX), rests, 1)
    return f"did you mean {rests[near[0]]}? " if near else ""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m deploy.local.variables", description=__doc__)
    parser.add_argument("--given", nargs="*", default=[], help="the names of the variables")
    parser.add_argument("--targets", nargs="*", default=[], help="the targets of make")
    options = parser.parse_args()
    print(find_mistake(options.given, options.targets), end="")


if __name__ == "__main__":
    main()
