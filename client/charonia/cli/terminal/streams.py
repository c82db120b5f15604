"""The standard streams of the command: opened if the shell closed them, and flushed at its end."""

import contextlib
import os
import sys

STDIN, STDOUT, STDERR = 0, 1, 2
# A closed input cannot be read, and a closed output cannot be written. Notes for people are lost.
MODES = {STDIN: os.O_WRONLY, STDOUT: os.O_RDONLY, STDERR: os.O_RDWR}


def open_closed() -> None:
    """Open the null device for each stream that the shell closed, before another file gets its number."""
    for descriptor, mode in MODES.items():
        if is_closed(descriptor):
            opened = os.open(os.devnull, mode)
            if opened != descriptor:
                os.dup2(opened, descriptor)
                os.close(opened)
    if sys.stdin is None:
        sys.stdin = os.fdopen(STDIN, closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(STDOUT, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(STDERR, "w", closefd=False)


def is_closed(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return True
    return False


def flush() -> None:
    """Write what is left. Raise OSError if standard output takes no more."""
    sys.stdout.flush()


def drop() -> None:
    """Forget what is left, so that the interpreter does not write it at its end."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
