"""The wheel works in an empty environment, against the real stack. The sdist makes the same wheel."""

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.settings import ROOT
from deploy.local.stack import Stack
from tests.support.api.model_inputs import LINES

PROGRAM = """
import asyncio, importlib.util, pathlib, sys
from importlib.metadata import version

import charonia

async def main():
    async with charonia.AsyncCharonia() as client:
        return (await client.run("echo", x=[1, 2]))["y"]

with charonia.Charonia() as client:
    print(client.run("ocr", image=pathlib.Path(sys.argv[1]))["text"])
    print([part.text for part in client.stream("tokens", text="a b")])
    print(sorted(done["y"][0][0] for done in client.map("echo", range(3))))
print(asyncio.run(main()), importlib.util.find_spec("numpy"))
print(version("charonia") == charonia.__version__, (pathlib.Path(charonia.__file__).parent / "py.typed").exists())
"""


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `make dist` writes, of a copy of the repository's files that it needs."""
    place = tmp_path_factory.mktemp("dist")
    shutil.copytree(ROOT / "client", place / "client", ignore=shutil.ignore_patterns("build", "*.egg-info"))
    for name in ("Makefile", "requirements.txt"):
        shutil.copy(ROOT / name, place / name)
    # make takes the environment for complete, and this interpreter for its own.
    run(["make", "-s", f"RUN={sys.executable}", "STAMP=requirements.txt", "dist"], place)
    return place / "build" / "dist"


def find_pythons() -> list[str]:
    """Return this interpreter, and others that the library supports, if they are installed."""
    found = [sys.executable]
    for minor in (10, 12, 13):
        if program := shutil.which(f"python3.{minor}"):
            usable = subprocess.run([program, "-c", "import venv"], capture_output=True, check=False)
            found += [program] if usable.returncode == 0 else []
    return found


def run(argv: Sequence[str], cwd: Path, environment: dict[str, str] | None = None) -> str:
    found = subprocess.run(argv, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def test_the_sdist_makes_the_same_wheel(distributions: Path, tmp_path: Path) -> None:
    (sdist,), (wheel,) = distributions.glob("*.tar.gz"), distributions.glob("*.whl")
    options = ["--no-deps", "--no-build-isolation", "--quiet", "--disable-pip-version-check"]
    run([sys.executable, "-m", "pip", "wheel", *options, str(sdist)], tmp_path)
    assert read_files(tmp_path / wheel.name) == read_files(wheel)


def read_files(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_it_installs_and_runs(distributions: Path, stack: Stack, tmp_path: Path) -> None:
    for python in find_pythons():
        folder = tmp_path / Path(python).name
        folder.mkdir()
        install_and_run(python, distributions, stack, folder)


def install_and_run(python: str, distributions: Path, stack: Stack, folder: Path) -> None:
    (package,) = distributions.glob("*.whl")
    run([python, "-m", "venv", "--without-pip", "venv"], folder)
    own = str(folder / "venv" / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", own]  # an own one would take most of the test
    run([*pip, "install", "--quiet", "--no-compile", "--disable-pip-version-check", str(package)], folder)
    environment = {"CHARONIA_URL": stack.url, "CHARONIA_KEY": DEVELOPMENT_KEY, "HOME": str(folder)}
    image = ROOT / "deploy" / "local" / "demo.png"
    found = run([own, "-W", "error", "-c", PROGRAM, str(image)], folder, environment)
    assert found.splitlines() == [str(LINES), "['a', ' b']", "[0.0, 2.0, 4.0]", "[[2.0, 4.0]] None", "True True"]
