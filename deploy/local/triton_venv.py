"""The virtual environment of Triton and its Python models, separate from that of the services."""

import hashlib
import shutil
import sys
from pathlib import Path

from deploy.local.processes.command import run
from deploy.local.servers.account import open_to_others

REQUIREMENTS = Path(__file__).with_name("triton-requirements.txt")
STAMP = "charonia-requirements.sha256"  # written last: the environment is complete


def is_complete(directory: Path) -> bool:
    """Return whether the environment exists and is up to date."""
    stamp = directory / STAMP
    return stamp.exists() and stamp.read_text() == _fingerprint() and (directory / "bin" / "python").exists()


def make(directory: Path) -> None:
    """Create the environment anew, which takes up to ten minutes on a slow network; raise CommandFailed."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.parent.mkdir(parents=True, exist_ok=True)
    run([sys.executable, "-m", "venv", str(directory)], timeout=120)
    install(directory, REQUIREMENTS)
    (directory / STAMP).write_text(_fingerprint())
    open_to_others(directory)


def install(directory: Path, requirements: Path) -> None:
    """Install packages of a file with hashes into the environment, but not what they need; raise CommandFailed."""
    options = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--root-user-action=ignore"]
    quiet = ["--disable-pip-version-check", "--quiet"]
    pip = [str(directory / "bin" / "python"), "-m", "pip", "install", *options, *quiet]
    run([*pip, "-r", str(requirements)], timeout=600)


def _fingerprint() -> str:
    """Hash the requirements and the interpreter: Triton's stub of Python fits no other version."""
    content = REQUIREMENTS.read_bytes() + sys.version.encode() + sys.base_prefix.encode()
    return hashlib.sha256(content).hexdigest()
