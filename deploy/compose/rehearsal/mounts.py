"""Unmounts what a Docker engine leaves mounted in its folder, such as the namespaces of its networks."""

import re
from pathlib import Path

from deploy.local.processes.command import run

MOUNTS = Path("/proc/self/mounts")
ESCAPE = re.compile(r"\\([0-7]{3})")  # of a blank, for example
SECONDS = 30.0


def list_mounts(directory: Path, table: str) -> list[Path]:
    """Return the mount points below a directory, the deepest first. `table` has the lines of /proc/self/mounts."""
    points = [ESCAPE.sub(lambda match: chr(int(match[1], 8)), line.split(" ")[1]) for line in table.splitlines()]
    below = {Path(point) for point in points if Path(point).is_relative_to(directory)}
    return sorted(below, key=lambda point: len(point.parts), reverse=True)


def unmount_below(directory: Path) -> None:
    """Unmount everything below a directory; raise CommandFailed if that fails."""
    for point in list_mounts(directory.resolve(), MOUNTS.read_text()):
        run(["umount", "--lazy", str(point)], timeout=SECONDS)
