"""Packages of the operating system: which are needed, and how they are installed where we may."""

import ctypes
import os
import shutil
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from deploy.local import clock, postgres, rabbitmq
from deploy.local.command import run
from deploy.local.errors import MissingPrograms

POLICY = Path("/usr/sbin/policy-rc.d")  # Debian asks it whether a package may start its service


def missing_packages(*, tests: bool = False) -> list[str]:
    """Return the Debian packages whose programs are not found; with `tests` also of those that only tests need."""
    needed: dict[str, Callable[[], bool]] = {
        "postgresql": lambda: _found(postgres.find_programs),
        "rabbitmq-server": lambda: _found(rabbitmq.find_scripts) and shutil.which("epmd") is not None,
        "util-linux": lambda: shutil.which("setpriv") is not None,
        "python3-venv": lambda: find_spec("ensurepip") is not None,
        "libpython3.11": _has_libpython,  # Triton's Python backend is linked against it
    }
    if tests:
        needed["libfaketime"] = lambda: _found(clock.find_library)
        needed["prometheus"] = lambda: shutil.which("promtool") is not None
        needed["prometheus-alertmanager"] = lambda: shutil.which("amtool") is not None
    return [package for package, present in needed.items() if not present()]


def ensure_packages(*, tests: bool = False) -> list[str]:
    """Install what is missing, as root on Debian; return what was installed.

    Raises MissingPrograms, which says what to run, where that is not possible; takes minutes on a slow network.
    """
    missing = missing_packages(tests=tests)
    if not missing:
        return []
    install = ["apt-get", "install", "-y", "--no-install-recommends", *missing]
    if shutil.which("apt-get") is None:
        raise MissingPrograms(f"these Debian packages, or what corresponds to them, are missing: {', '.join(missing)}")
    if os.geteuid() != 0:
        raise MissingPrograms(f"programs are missing; run: sudo apt-get update && sudo {' '.join(install)}")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "update"], timeout=300, env=env)
    with _services_left_alone():
        run(install, timeout=900, env=env)
    if still := missing_packages(tests=tests):
        raise MissingPrograms(f"{', '.join(still)}: installed, but their programs are not found")
    return missing


@contextmanager
def _services_left_alone() -> Iterator[None]:
    """Keep packages from starting their services: they would take ports and memory, and nobody asked for them."""
    if POLICY.exists():  # this machine has its own opinion
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
