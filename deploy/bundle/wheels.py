"""Puts Python packages, checked by their hashes, into the environments of the bundle."""

import re
import shutil
import sys
from pathlib import Path

from deploy.bundle.parts import STUBS
from deploy.local import triton_venv
from deploy.local.processes.command import run
from deploy.local.servers.triton import PACKAGES

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
SITE = Path("lib/python3.11/site-packages")
SECONDS = 1800.0
# For models that run with the Python of the system, which may have a NumPy that Triton's backend cannot use.
NUMPY = re.compile(r"^numpy==(?:.*\\\n)*.*\n", re.MULTILINE)
OTHER_PYTHONS = ("3.12",)  # NumPy 1 has no wheel for a newer one
PLATFORM = "manylinux2014_x86_64"
SOURCES = "../../../../app\n../../../../app/client\n"  # from SITE; they are on Python's path


def make_environments(tree: Path) -> None:
    """Make the environments of the services and of Triton; raise CommandFailed."""
    services, triton = tree / "services", tree / "triton"
    _make(services, REQUIREMENTS)
    (services / SITE / "charonia.pth").write_text(SOURCES)
    _make(triton, triton_venv.REQUIREMENTS)
    stubs = triton / SITE / "pytriton/tritonserver/python_backend_stubs"
    for folder in stubs.iterdir():
        if folder.name not in STUBS:
            shutil.rmtree(folder)
    for version in OTHER_PYTHONS:
        _add_numpy(tree, version)


def _make(directory: Path, requirements: Path) -> None:
    """The installer adds pyvenv.cfg, which has the absolute path of the interpreter."""
    site = directory / SITE
    _install(site, requirements)
    (directory / "bin").mkdir()
    for name in ("python", "python3", "python3.11"):
        (directory / "bin" / name).symlink_to("../../usr/bin/python3.11")


def _add_numpy(tree: Path, version: str) -> None:
    """Add the NumPy of Triton's requirements for another Python."""
    found = NUMPY.search(triton_venv.REQUIREMENTS.read_text())
    assert found is not None
    requirements = tree.parent / "numpy.txt"
    requirements.write_text(found[0])
    target = tree / "triton" / PACKAGES / version
    options = ["--python-version", version, "--implementation", "cp", "--platform", PLATFORM]
    _install(target, requirements, *options)


def _install(target: Path, requirements: Path, *more: str) -> None:
    options = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--no-compile", "--quiet"]
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--root-user-action=ignore"]
    run([*pip, *options, *more, "--target", str(target), "-r", str(requirements)], timeout=SECONDS)
    shutil.rmtree(target / "bin", ignore_errors=True)  # they name the interpreter of this machine
