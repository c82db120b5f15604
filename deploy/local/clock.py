"""A clock for tests to set: libfaketime beneath the processes that are to believe it."""

import shutil
import tempfile
from pathlib import Path

from deploy.local.errors import MissingPrograms

LIBRARY = "faketime/libfaketimeMT.so.1"
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where POSIX shared memory is on Linux


class Clock:
    """Processes with its `environment` see a time so many seconds `ahead`; the clock for measuring goes on evenly."""

    def __init__(self) -> None:
        self._place = Path(tempfile.mkdtemp(prefix="charonia-clock-"))
        self._place.chmod(0o755)  # PostgreSQL runs as somebody else
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
        """Set it forward, or back."""
        self.ahead += seconds
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{self.ahead:+d}\n")
        fresh.chmod(0o644)
        fresh.rename(self._file)  # nobody reads half a line

    def delete(self) -> None:
        """Remove it, once nobody uses it any more."""
        shutil.rmtree(self._place)
        for left in SHARED_MEMORY.glob("*faketime_*"):  # a process that executes another program leaves these
            if not Path("/proc", left.name.rpartition("_")[2]).exists():
                left.unlink(missing_ok=True)


def find_library() -> Path:
    """Return libfaketime; raise MissingPrograms where there is none."""
    found = sorted(Path("/usr/lib").glob(f"*/{LIBRARY}"))
    if not found:
        raise MissingPrograms(f"libfaketime is not installed (no {LIBRARY} in /usr/lib/*)")
    return found[-1]
