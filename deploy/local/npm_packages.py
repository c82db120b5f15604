"""The npm packages with which tests run the JavaScript of the docs.

Their lock has hashes, and no address of a registry: npm uses that of the machine.
"""

import hashlib
import shutil
from pathlib import Path

from deploy.local.processes.command import run
from deploy.local.settings import ROOT

MANIFESTS = ROOT / "tests" / "support" / "javascript"
LOCK = MANIFESTS / "package-lock.json"
DIRECTORY = ROOT / ".charonia" / "javascript"
STAMP = "charonia-lock.sha256"  # written last: the folder is complete


def is_complete(directory: Path) -> bool:
    """Return whether the packages are there, and are those of the lock."""
    stamp = directory / STAMP
    return stamp.exists() and stamp.read_text() == _fingerprint() and (directory / "node_modules").exists()


def make(directory: Path) -> None:
    """Get the packages anew; raise CommandFailed. No package runs a program of its own."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for file in (MANIFESTS / "package.json", LOCK):
        shutil.copy(file, directory)
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"]
    run(["npm", "--prefix", str(directory), "ci", *options], timeout=600)
    (directory / STAMP).write_text(_fingerprint())


def _fingerprint() -> str:
    return hashlib.sha256(LOCK.read_bytes()).hexdigest()
