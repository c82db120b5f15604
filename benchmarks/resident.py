"""Memory of processes, as Linux's /proc shows it."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from deploy.local.tree import members

LOOK = 0.5  # seconds
KIB = 1024  # bytes, of which the kernel says kB


def resident(leader: int) -> float:
    """Return the resident memory, in MB, of a process and all its descendants; what they share counts for each."""
    total = 0.0
    for pid in members(leader):
        with suppress(OSError):  # it ended while we looked
            fields = Path(f"/proc/{pid}/status").read_text().splitlines()
            total += sum(float(line.split()[1]) for line in fields if line.startswith("VmRSS:"))
    return total * KIB / 1e6


@contextmanager
def watch(leaders: Mapping[str, int]) -> Iterator[dict[str, float]]:
    """The most that each has had inside, by name, in MB."""
    most = {name: resident(leader) for name, leader in leaders.items()}
    over = threading.Event()

    def look() -> None:
        while not over.wait(LOOK):
            for name, leader in leaders.items():
                most[name] = max(most[name], resident(leader))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield most
    finally:
        over.set()
        watcher.join()
