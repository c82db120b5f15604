"""Lets a stack run once at a time."""

import fcntl
import os
from pathlib import Path

from deploy.local.errors import StackLocked


class Lock:
    """A lock on a directory. The system releases it when this process ends."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "lock"
        self._file: int | None = None

    @property
    def is_held(self) -> bool:
        """Whether this process holds the lock."""
        return self._file is not None

    @property
    def is_taken(self) -> bool:
        """Whether this or another process holds the lock."""
        try:
            file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(file)
        return False

    def acquire(self) -> None:
        """Take the lock; raise StackLocked, which names the other process, if it is taken."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(file, 20).decode(errors="replace").strip()
            os.close(file)
            directory = self._path.parent
            message = (
                f"the stack in {directory} is already running (process {holder}); "
                "to run another one, set another PORT_BASE, or another STACK_DIR if you set that"
            )
            raise StackLocked(message) from error
        os.ftruncate(file, 0)
        os.write(file, str(os.getpid()).encode())
        self._file = file

    def release(self) -> None:
        """Release the lock, if it is held."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
