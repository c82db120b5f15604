"""A clock that tests can set, for the processes that run with libfaketime."""

import shutil
import tempfile
from pathlib import Path

from deploy.local.errors import MissingPrograms

LIBRARY = "faketime/libfaketimeMT.so.1"
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where POSIX shared memory is on Linux


class Clock:
    """Processes with this `environment` see a time `ahead` by so many seconds; monotonic clocks are unchanged."""

    def __init__(self) -> None:
        self._place = Path(tempfile.mkdtemp(prefix="charonia-clock-"))
        self._place.chmod(0o755)  # PostgreSQL runs as another user
        self._file = self._place / "offset"
        self.environment = {
            "LD_PRELOAD": str(find_library()),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }
        self.ahead = 0
        self.jump(0)

    def jump(self, seconds: int) -> None:
        """Set the clock forward, or back with negative `seconds`."""
        self.ahead += seconds
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{self.ahead:+d}\n")
        fresh.chmod(0o644)
        fresh.rename(self._file)  # so that nobody reads half a line

    def delete(self) -> None:
        """Remove its files, after all its processes have ended."""
        shutil.rmtree(self._place)
        for left in SHARED_MEMORY.glob("*faketime_*"):  # left by processes that executed another program
            if not Path("/proc", left.name.rpartition("_")[2]).exists():
                left.unlink(missing_ok=True)


def find_library() -> Path:
    """Return the path of libfaketime; raise MissingPrograms if there is none."""
    found = sorted(Path("/usr/lib").glob(f"*/{LIBRARY}"))
    if not found:
        raise MissingPrograms(f"libfaketime is not installed (no {LIBRARY} in /usr/lib/*)")
    return found[-1]
