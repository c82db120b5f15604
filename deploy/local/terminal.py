"""What the terminal shows: lines of all processes, each behind its name."""

import sys
import threading
from typing import TextIO

WIDTH = 12

_lock = threading.Lock()


def show(name: str, line: str, out: TextIO = sys.stdout) -> None:
    """Print one line of one process; lines of several never mix."""
    with _lock:
        out.write(f"{name:<{WIDTH}} | {line}\n")
        out.flush()


def say(text: str) -> None:
    """Print something of our own."""
    with _lock:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
