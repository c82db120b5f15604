"""The packages of the language models, in the environment of Triton. They have the weights, so they are not shipped."""

import hashlib
from pathlib import Path

from deploy.local import triton_venv
from deploy.local.servers.account import open_to_others

REQUIREMENTS = Path(__file__).with_name("language-models-requirements.txt")
STAMP = "charonia-language-models.sha256"  # written last: the packages are there


def is_complete(directory: Path) -> bool:
    """Return whether the environment has the packages. A new environment has none."""
    stamp = directory / STAMP
    return triton_venv.is_complete(directory) and stamp.exists() and stamp.read_text() == _fingerprint()


def make(directory: Path) -> None:
    """Install the packages into Triton's environment. They are 150 MB to download. Raises CommandFailed."""
    triton_venv.install(directory, REQUIREMENTS)
    (directory / STAMP).write_text(_fingerprint())
    open_to_others(directory)


def _fingerprint() -> str:
    return hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
