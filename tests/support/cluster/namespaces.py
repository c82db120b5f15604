"""Runs a program in private namespaces: of networks, processes, mounts and System V memory.

All its processes end with it, and so do its networks and what it writes below SHARED_MEMORY.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

from deploy.local.errors import MissingPrograms
from deploy.local.settings import ROOT

INSIDE = "CHARONIA_CLUSTER_NAMESPACES"  # set for the program that runs inside
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - inside, an empty file system in memory
STOP_SECONDS = 30.0
NAMESPACES = ["--net", "--pid", "--mount", "--ipc", "--fork", "--kill-child=KILL", "--mount-proc"]
# The shell is the first process of its namespace. It reaps processes whose parents have ended: PostgreSQL does not
# start while the process of an earlier one is a zombie.
INIT = 'mount -t tmpfs tmpfs /dev/shm && ip link set lo up && "$@"; exit "$?"'


def is_inside() -> bool:
    return INSIDE in os.environ


def run_inside(argv: Sequence[str]) -> int:
    """Run Python with these arguments in private namespaces. Return its exit code; every process has ended then.

    Call it from a main function: it replaces the handlers of SIGINT and SIGTERM.
    """
    if os.geteuid() != 0:
        raise MissingPrograms("a cluster needs network namespaces: run this as root")
    command = ["setpriv", "--pdeathsig", "KILL", "unshare", *NAMESPACES, "sh", "-c", INIT, "sh", sys.executable, *argv]
    signal.signal(signal.SIGTERM, _exit)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that starts us in the background ignores it
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, INSIDE: "1", "TMPDIR": str(SHARED_MEMORY)})
    try:
        return process.wait()
    except KeyboardInterrupt:
        with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            process.wait(STOP_SECONDS)  # Ctrl-C reaches the program too
        return 130
    finally:
        process.kill()  # and with it everything inside
        process.wait()


def _exit(_number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + signal.SIGTERM)
