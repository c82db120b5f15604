"""CPU time, context switches and memory of processes, as Linux shows them in /proc."""

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

from deploy.local.processes.tree import members

TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")  # CPU time is counted in ticks, so only sums over many jobs are precise

SWITCHES = re.compile(r"^(?:non)?voluntary_ctxt_switches:\s+(\d+)$", re.MULTILINE)


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


class SwitchMeter:
    """Counts the context switches of processes, voluntary or not, from now on; threads that end do not count."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._before = {name: (pid, _read_switches(pid)) for name, pid in pids.items()}

    def read(self, divisor: float) -> dict[str, float]:
        """Return the switches of all processes, and of each by name, per job or second."""
        counts = {}
        for name, (pid, before) in self._before.items():
            after = _read_switches(pid)
            counts[name] = sum(count - before.get(thread, 0) for thread, count in after.items()) / divisor
        return {"switches": sum(counts.values())} | {f"switches/{name}": count for name, count in counts.items()}


def count_switches(status: str) -> int:
    """Return the context switches of one thread, from its file `status`."""
    return sum(map(int, SWITCHES.findall(status)))


def _read_switches(leader: int) -> dict[str, int]:
    """Return the context switches of each thread of a process and its descendants."""
    counts = {}
    for member in members(leader):
        for path in Path(f"/proc/{member}/task").glob("*/status"):
            with suppress(OSError):  # it has ended
                counts[path.parent.name] = count_switches(path.read_text())
    return counts


def read_memory(pid: int, kind: Literal["VmRSS", "VmHWM"] = "VmRSS") -> float:
    """Return the resident memory of a process and its descendants in MB, now or (VmHWM) at its largest.

    Shared pages count for each process.
    """
    return _sum_up(pid, "status", lambda text: int(text.partition(f"{kind}:")[2].split()[0])) * 1024 / 1e6


def reset_peaks(pid: int) -> None:
    """Let the largest resident memory of a process and its descendants count from now on."""
    for member in members(pid):
        with suppress(OSError):  # it has ended
            Path(f"/proc/{member}/clear_refs").write_text("5")


def _sum_up(pid: int, file: str, read: Callable[[str], float]) -> float:
    total = 0.0
    for member in members(pid):
        with suppress(OSError, IndexError):  # it has ended
            total += read(Path(f"/proc/{member}/{file}").read_text())
    return total


def _read_cpu(stat: str) -> float:
    return sum(map(int, stat.rpartition(")")[2].split()[11:15])) * TICK_MS  # user, system, and of ended children
