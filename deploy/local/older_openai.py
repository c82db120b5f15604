"""An older major version of OpenAI's client, in a folder of its own: tests run it beside the current one."""

import hashlib
import shutil
import sys
from pathlib import Path

from deploy.local.processes.command import run
from deploy.local.settings import ROOT

REQUIREMENTS = Path(__file__).with_name("older-openai-requirements.txt")
DIRECTORY = ROOT / ".charonia" / "older-openai"
STAMP = "charonia-requirements.sha256"  # written last: the folder is complete


def is_complete(directory: Path) -> bool:
    """Return whether the client is there, and is that of the requirements."""
    stamp = directory / STAMP
    return stamp.exists() and stamp.read_text() == _fingerprint()


def make(directory: Path) -> None:
    """Get the client anew; raise CommandFailed."""
    shutil.rmtree(directory, ignore_errors=True)
    options = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--root-user-action=ignore"]
    pip = [sys.executable, "-m", "pip", "install", *options, "--disable-pip-version-check", "--quiet"]
    run([*pip, "--target", str(directory), "-r", str(REQUIREMENTS)], timeout=600)
    (directory / STAMP).write_text(_fingerprint())


def _fingerprint() -> str:
    return hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
