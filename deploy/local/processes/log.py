"""The log file of a process: its tail for error messages, its new lines for the terminal."""

import os
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

LARGE = 10_000_000  # bytes; a larger file becomes the old one, which is kept until the next
LINE = 65_536  # bytes; a longer line is shown in parts
POLL_SECONDS = 0.1

Listener = Callable[[str, str], None]  # called with the name of the process and a line of its output


class Log:
    """A file that a child process writes directly, so that this process cannot slow it down."""

    def __init__(self, name: str, path: Path, on_line: Listener | None = None) -> None:
        self.path = path
        self._name = name
        self._on_line = on_line
        self._start = 0

    def open(self) -> BinaryIO:
        """Open the file for a new run of the child, which appends to it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists() and self.path.stat().st_size > LARGE:
            self.path.replace(self._old_path)
        file = self.path.open("ab")
        self._start = file.tell()
        return file

    def tail(self, lines: int = 20) -> str:
        """Return the last lines of the current run."""
        if not self.path.exists():
            return ""
        with self.path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(self._start, size - LINE))
            last = deque(file.read(LINE).splitlines(), maxlen=lines)
        return "\n".join(line.decode(errors="replace") for line in last)

    def follow(self, ended: Callable[[], bool]) -> None:
        """Call the listener, if there is one, with each new line until the child ends. Keep the file below LARGE."""
        if self._on_line is not None:
            follower = threading.Thread(
                target=self._follow, args=(self._on_line, self._start, ended), name=f"follow-{self._name}", daemon=True
            )
            follower.start()

    def _follow(self, on_line: Listener, start: int, ended: Callable[[], bool]) -> None:
        with self.path.open("rb") as file:
            file.seek(start)
            partial = b""
            while True:
                last = ended()  # checked before reading, so that the last lines are read below
                is_large = file.tell() > LARGE
                if is_large:
                    shutil.copyfile(self.path, self._old_path)
                while chunk := file.readline(LINE):
                    partial += chunk
                    if partial.endswith(b"\n") or len(partial) >= LINE:
                        on_line(self._name, partial.decode(errors="replace").rstrip("\n"))
                        partial = b""
                if last:
                    return
                if is_large:  # the child has it open, so it cannot be renamed; what came after the copy is only shown
                    os.truncate(self.path, 0)
                    file.seek(0)
                    self._start = 0
                time.sleep(POLL_SECONDS)

    @property
    def _old_path(self) -> Path:
        return self.path.with_suffix(".log.1")
