"""CPU time of processes, as Linux's /proc shows it."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from deploy.local.tree import members

MS = 1000 / os.sysconf("SC_CLK_TCK")  # milliseconds in a tick
IDLE = (3, 4)  # the columns of /proc/stat that are no work: idle, and waiting for disks
GUEST = 8  # from here on its columns repeat others


def spent(leader: int) -> float:
    """Return the CPU milliseconds of a process and all its descendants, ended ones included.

    The kernel counts in ticks of 10 ms, so only sums over thousands of jobs mean something.
    """
    total = 0
    for pid in members(leader):
        with suppress(OSError):  # it ended while we looked
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15]))  # user, system, and the same of children that were waited for
    return total * MS


def busy() -> float:
    """Return the CPU milliseconds of the whole machine, time stolen by its host included."""
    columns = list(map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]))[:GUEST]
    return (sum(columns) - sum(columns[column] for column in IDLE)) * MS


class Meter:
    """What each of several named processes uses from now on."""

    def __init__(self, leaders: Mapping[str, int]) -> None:
        self._leaders = dict(leaders)
        self._before = self._look()

    def read(self) -> dict[str, float]:
        """Return milliseconds by name; `others` is the rest of the machine."""
        after = self._look()
        used = {name: after[name] - before for name, before in self._before.items()}
        everything = used.pop("machine")
        return used | {"others": max(0.0, everything - sum(used.values()))}

    def _look(self) -> dict[str, float]:
        return {name: spent(leader) for name, leader in self._leaders.items()} | {"machine": busy()}
