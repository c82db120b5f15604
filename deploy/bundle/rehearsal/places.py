"""Places without a network in which the bundle is tested: this machine, and bare systems made by debootstrap.

Each run has namespaces of its own, so that its mounts and processes end with it.
"""

import os
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from deploy.compose.rehearsal.bases import find_mirror
from deploy.local.errors import LocalError
from deploy.local.processes.command import run

NOBODY = 65534
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
BOOTSTRAP_SECONDS = 900.0
STAMP = "charonia-complete"
INCLUDED = "python3"  # all that the bundle needs besides glibc
USE = Path(__file__).with_name("use.sh")
ISOLATE = ("unshare", "--net", "--mount", "--pid", "--ipc", "--fork", "--kill-child", "--mount-proc")
VERSIONS = "import os, sys; print(os.confstr('CS_GNU_LIBC_VERSION'), 'and Python', sys.version.split()[0])"


@dataclass(frozen=True)
class Place:
    """`root` is the folder of a bare system, or None for this machine."""

    name: str
    root: Path | None
    as_root: bool

    def describe(self) -> str:
        """Return the versions of its C library and Python."""
        enter = [] if self.root is None else ["chroot", str(self.root)]
        return run([*enter, "python3", "-c", VERSIONS], timeout=60, env={"PATH": PATH}).strip()

    def command(self, bundle: Path, target: Path) -> list[str]:
        """Return the command that uses the bundle there. `target` is an empty folder to install in."""
        user = [] if self.as_root else ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        use = [*user, "env", "-i", f"PATH={PATH}", "sh"]
        if self.root is None:
            return _isolate(_bind(bundle, bundle), [*use, str(USE), str(bundle), str(target)])
        mounts = [
            ["mount", "-t", "proc", "proc", f"{self.root}/proc"],
            ["mount", "--rbind", "/dev", f"{self.root}/dev"],
            ["mount", "-t", "tmpfs", "none", f"{self.root}/dev/shm"],  # noqa: S108 - where POSIX shared memory is
            *_bind(bundle, self.root / "bundle"),
            *_bind(USE.parent, self.root / "bundle-test"),
            ["mount", "--bind", str(target), f"{self.root}/srv/charonia"],
        ]
        there = [f"/bundle-test/{USE.name}", "/bundle", "/srv/charonia"]
        return _isolate(mounts, ["chroot", str(self.root), *use, *there])


def _bind(folder: Path, point: Path) -> list[list[str]]:
    """Return commands that show a folder elsewhere, as on a disk that cannot be written."""
    return [["mount", "--bind", str(folder), str(point)], ["mount", "-o", "remount,ro,bind", str(point)]]


def _isolate(prepare: list[list[str]], argv: list[str]) -> list[str]:
    """Return a command that runs others, and then `argv`, in new namespaces with a loopback interface only."""
    lines = [shlex.join(command) for command in (["ip", "link", "set", "lo", "up"], *prepare, ["exec", *argv])]
    return [*ISOLATE, "sh", "-euc", "\n".join(lines)]


def make_system(release: str, directory: Path) -> Path:
    """Return a bare system of a Debian release with Python, and nothing else; make it unless it exists."""
    root = directory / release
    if (root / STAMP).exists():
        return root
    if shutil.which("debootstrap") is None:
        raise LocalError("debootstrap is not installed; run: apt-get install debootstrap")
    shutil.rmtree(root, ignore_errors=True)
    root.parent.mkdir(parents=True, exist_ok=True)
    argv = ["debootstrap", "--variant=minbase", f"--include={INCLUDED}", release, str(root), find_mirror()]
    run(argv, timeout=BOOTSTRAP_SECONDS, env=dict(os.environ))
    for name in ("bundle", "bundle-test", "srv/charonia"):
        (root / name).mkdir()
    (root / STAMP).touch()
    return root
