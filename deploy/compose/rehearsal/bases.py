"""Makes base images without a registry, from Debian packages, with this machine's configuration of mirrors."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from deploy.compose.rehearsal.engine import Engine
from deploy.local.errors import LocalError
from deploy.local.processes.command import run

PACKAGES = "ca-certificates,python3,python3-venv"
CERTIFICATES = Path("/usr/local/share/ca-certificates")
CONFIGURATIONS = ("/etc/apt/apt.conf.d", "/etc/pip.conf")  # the parts that configure mirrors and indexes
MIRROR = re.compile(r"^(?:URIs:|deb(?: \[[^]]*\])?) *(\S+/debian)/?\s", re.MULTILINE)
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"


def ensure_base(engine: Engine, release: str) -> str:
    """Return the name of an image of a Debian release with Python; make it if it does not exist."""
    name = f"charonia-rehearsal/{release}"
    if engine.docker("images", "--quiet", name):
        return name
    root = engine.directory / release
    shutil.rmtree(root, ignore_errors=True)
    argv = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", release, str(root), find_mirror()]
    run(argv, timeout=900, env=dict(os.environ))
    copy_configuration(root)
    with subprocess.Popen(["tar", "-C", str(root), "-c", "."], stdout=subprocess.PIPE) as archive:
        change = f"ENV PIP_CERT={BUNDLE}"
        done = subprocess.run(
            ["docker", "import", "--change", change, "-", name],
            stdin=archive.stdout,
            env=engine.env,
            timeout=600,
            check=False,
        )
    if done.returncode or archive.returncode:
        raise LocalError(f"docker import of the base image of {release} failed")
    shutil.rmtree(root)
    return name


def find_mirror() -> str:
    """Return the mirror that this machine's apt uses."""
    apt = Path("/etc/apt")
    for file in (*sorted(apt.glob("sources.list.d/*")), apt / "sources.list"):
        if file.is_file() and (found := MIRROR.search(file.read_text())):
            return found[1]
    raise LocalError("/etc/apt names no Debian mirror")


def copy_configuration(root: Path) -> None:
    """Copy the proxies and certificates of this machine."""
    for place in map(Path, CONFIGURATIONS):
        for file in sorted(place.glob("*")) if place.is_dir() else [place]:
            if file.is_file() and (place.is_file() or "Acquire" in file.read_text()):
                shutil.copy(file, root / file.relative_to("/"))
    for file in CERTIFICATES.glob("*.crt"):
        shutil.copy(file, root / file.relative_to("/"))
    run(["/usr/sbin/chroot", str(root), "/usr/sbin/update-ca-certificates"], timeout=60, env=dict(os.environ))
    shutil.rmtree(root / "var/cache/apt/archives", ignore_errors=True)
