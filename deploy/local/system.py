"""The packages of the operating system: which are missing, and how to install them."""

import ctypes
import os
import shutil
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import invalidate_caches
from importlib.util import find_spec
from pathlib import Path

from deploy.local.errors import MissingPrograms
from deploy.local.processes import clock
from deploy.local.processes.command import run
from deploy.local.servers import postgres, rabbitmq

POLICY = Path("/usr/sbin/policy-rc.d")  # Debian runs it to learn whether a package may start its service
FONT = Path("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf")  # without any font, Chromium shows no text


def missing_packages(*, stack: bool = True, tests: bool = False, checks: bool = False) -> list[str]:
    """Return the Debian packages whose programs are not found.

    `stack` includes what the stack needs, `tests` what only tests need, and `checks` what `make check` needs.
    """
    needed: dict[str, Callable[[], bool]] = {"python3-venv": lambda: find_spec("ensurepip") is not None}
    if stack:
        needed |= {
            "postgresql": lambda: _found(postgres.find_programs),
            "rabbitmq-server": lambda: _found(rabbitmq.find_scripts) and shutil.which("epmd") is not None,
            "util-linux": lambda: shutil.which("setpriv") is not None,
            "libpython3.11": _has_libpython,  # Triton's Python backend is linked against it
        }
    if tests:
        needed |= {
            "jq": lambda: shutil.which("jq") is not None,
            "libfaketime": lambda: _found(clock.find_library),
            "iproute2": lambda: shutil.which("ip") is not None,
            "patroni": lambda: shutil.which("patroni") is not None,
            "etcd-server": lambda: shutil.which("etcd") is not None,
            "prometheus": lambda: shutil.which("promtool") is not None,
            "prometheus-alertmanager": lambda: shutil.which("amtool") is not None,
            "chromium-headless-shell": lambda: shutil.which("chromium-headless-shell") is not None,
            "fonts-dejavu-core": FONT.exists,
            "nodejs": lambda: shutil.which("node") is not None,
            "npm": lambda: shutil.which("npm") is not None,
        }
    if checks:
        needed["node-typescript"] = lambda: shutil.which("tsc") is not None
    return [package for package, present in needed.items() if not present()]


def install_packages(packages: Sequence[str]) -> None:
    """Install Debian packages, which takes minutes on a slow network.

    Raises MissingPrograms, with the command to run, unless this is Debian and we are root; raises CommandFailed.
    """
    install = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
    if shutil.which("apt-get") is None:
        raise MissingPrograms(f"install these Debian packages, or what corresponds to them: {', '.join(packages)}")
    if os.geteuid() != 0:
        raise MissingPrograms(f"programs are missing; run: sudo apt-get update && sudo {' '.join(install)}")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "update"], timeout=300, env=env)
    with _services_not_started():
        run(install, timeout=900, env=env)
    invalidate_caches()
    if still := set(packages) & set(missing_packages(tests=True, checks=True)):
        raise MissingPrograms(f"{', '.join(sorted(still))}: installed, but the programs are not found")


@contextmanager
def _services_not_started() -> Iterator[None]:
    """Keep packages from starting their services, which would take ports and memory."""
    if POLICY.exists():  # this machine has its own
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink(missing_ok=True)


def _has_libpython() -> bool:
    name = "libpython3.11.so.1.0"
    if (Path(sysconfig.get_config_var("LIBDIR")) / name).exists():
        return True
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def _found(find: Callable[[], Path]) -> bool:
    try:
        find()
    except MissingPrograms:
        return False
    return True
