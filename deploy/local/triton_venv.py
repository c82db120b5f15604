"""The virtual environment of Triton and its Python models, apart from that of the services."""

import hashlib
import shutil
import sys
from pathlib import Path

from deploy.local.command import run

REQUIREMENTS = Path(__file__).with_name("triton-requirements.txt")
STAMP = "charonia-requirements.sha256"  # written last: its presence means that the environment is complete


def ensure_venv(directory: Path) -> bool:
    """Create the environment unless it is there and up to date; return whether something was done.

    Takes up to ten minutes on a slow network; raises CommandFailed.
    """
    wanted = _fingerprint()
    stamp = directory / STAMP
    if stamp.exists() and stamp.read_text() == wanted and (directory / "bin" / "python").exists():
        return False
    shutil.rmtree(directory, ignore_errors=True)
    directory.parent.mkdir(parents=True, exist_ok=True)
    run([sys.executable, "-m", "venv", str(directory)], timeout=120)
    options = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--disable-pip-version-check", "--quiet"]
    pip = [str(directory / "bin" / "python"), "-m", "pip", "install", *options]
    run([*pip, "-r", str(REQUIREMENTS)], timeout=600)
    stamp.write_text(wanted)
    return True


def _fingerprint() -> str:
    """Of the requirements, and of the interpreter: its stub of Triton fits no other version."""
    content = REQUIREMENTS.read_bytes() + sys.version.encode() + sys.base_prefix.encode()
    return hashlib.sha256(content).hexdigest()
