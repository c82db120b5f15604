"""CPU time and memory of processes, as Linux shows them in /proc."""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

from deploy.local.tree import members

TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")  # CPU time is counted in ticks, so only sums over many jobs are precise


class CpuMeter:
    """Measures the CPU time of processes, given by name, from now on; their descendants count, ended ones included."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = dict(pids)
        self._before = self._read()

    def read(self, divisor: float) -> dict[str, float]:
        """Return CPU milliseconds by name, per job or second; `others` is the rest of the machine and of its host."""
        used = {name: after - self._before[name] for name, after in self._read().items()}
        machine = used.pop("machine")
        used["others"] = max(0.0, machine - sum(used.values()))
        return {f"cpu.{name}": value / divisor for name, value in used.items()}

    def _read(self) -> dict[str, float]:
        user, nice, system, _idle, _disk, *more = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
        machine = sum(map(int, (user, nice, system, *more))) * TICK_MS
        return {name: _sum_up(pid, "stat", _read_cpu) for name, pid in self._pids.items()} | {"machine": machine}


def read_memory(pid: int, kind: Literal["VmRSS", "VmHWM"] = "VmRSS") -> float:
    """Return the resident memory of a process and its descendants in MB, now or (VmHWM) at its largest.

    Shared pages count for each process.
    """
    return _sum_up(pid, "status", lambda text: int(text.partition(f"{kind}:")[2].split()[0])) * 1024 / 1e6


def _sum_up(pid: int, file: str, read: Callable[[str], float]) -> float:
    total = 0.0
    for member in members(pid):
        with suppress(OSError, IndexError):  # it has ended
            total += read(Path(f"/proc/{member}/{file}").read_text())
    return total


def _read_cpu(stat: str) -> float:
    return sum(map(int, stat.rpartition(")")[2].split()[11:15])) * TICK_MS  # user, system, and of ended children
