"""Finds all processes that belong to a child process, in Linux's /proc."""

import os
import signal
from contextlib import suppress
from pathlib import Path


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
