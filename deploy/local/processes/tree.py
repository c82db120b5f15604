"""Finds and freezes all processes that belong to a child process, in Linux's /proc."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from deploy.local.errors import NotReady

FREEZE_SECONDS = 5.0
POLL_SECONDS = 0.005
INACTIVE = set("TtDZX")  # states of proc(5). D: it waits in the kernel, and stops before it returns.


def members(leader: int) -> set[int]:
    """Return the live processes of the leader's group, and all its descendants.

    The group alone is not enough: PostgreSQL gives each of its processes a group of its own.
    Descendants alone are not enough: children of a dead leader belong to init.
    """
    parents, found = {}, set()
    for pid, parent, group in _processes():
        parents[pid] = parent
        if group == leader or pid == leader:
            found.add(pid)
    grown = True
    while grown:
        children = {pid for pid, parent in parents.items() if parent in found} - found
        found |= children
        grown = bool(children)
    return found


def alive(pids: set[int]) -> set[int]:
    """Return the processes that still exist."""
    return pids & {pid for pid, _, _ in _processes()}


def send(pids: set[int], number: signal.Signals) -> None:
    """Signal each process that still exists."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def freeze(find: Callable[[], set[int]]) -> None:
    """Stop the processes that `find` returns, until it finds none that runs. Raise NotReady after FREEZE_SECONDS.

    SIGSTOP alone is not enough: threads run on until the one that gets it is scheduled, and may start a process.
    """
    deadline = time.monotonic() + FREEZE_SECONDS
    while active := {pid for pid in find() if not _states(pid) <= INACTIVE}:
        if time.monotonic() > deadline:
            raise NotReady(f"processes {sorted(active)} run on after SIGSTOP")
        send(active, signal.SIGSTOP)
        time.sleep(POLL_SECONDS)


def _states(pid: int) -> set[str]:
    """Return the states of a process's threads; none if it has ended."""
    states = set()
    with suppress(OSError):
        for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
            with suppress(OSError):  # the thread has ended
                states.add(stat.read_text().rpartition(")")[2].split()[0])
    return states


def _processes() -> list[tuple[int, int, int]]:
    """Return pid, parent and group of every process that is not a zombie."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):  # it has ended
            # The name in brackets may itself contain spaces and brackets.
            state, parent, group = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
            if state != "Z":
                found.append((int(entry.name), int(parent), int(group)))
    return found
