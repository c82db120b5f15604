"""The benchmarks of the services need no package that only development has: they run where a bundle was installed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.local.settings import ROOT

PIN = re.compile(r"^([A-Za-z0-9_.-]+)(?:\[.*\])?==", re.MULTILINE)
REQUIREMENTS = ROOT / "deploy" / "compose" / "requirements"
# Packages that others use if they happen to be there.
OPTIONAL = {"annotated-types", "brotli", "setuptools"}
LIST_USED = """
import sys
from importlib.metadata import packages_distributions
import benchmarks.command_line
from benchmarks.scenarios import load_scenario
load_scenario(sys.argv[1])
packages = packages_distributions()
modules = {name.partition(".")[0] for name in sys.modules}
print("\\n".join({each for module in modules for each in packages.get(module, ())} | modules & {"tests"}))
"""


def normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def read_pins(file: Path) -> set[str]:
    return {normalize(name) for name in PIN.findall(file.read_text())}


@pytest.mark.parametrize("scenario", ["gpu", "core"])
def test_only_packages_of_the_services_are_needed(scenario: str) -> None:
    installed = set[str]().union(*map(read_pins, REQUIREMENTS.glob("[gdn]*.txt")))
    argv = [sys.executable, "-c", LIST_USED, scenario]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    used = {normalize(name) for name in done.stdout.split()}
    assert used - installed - OPTIONAL == set()
