"""Prints lines of all processes to the terminal, each after the name of its process."""

import sys
import threading
from typing import TextIO

WIDTH = 12

_lock = threading.Lock()


# What programs print at every start, though nothing is wrong: Triton on a machine without a GPU.
NOISE = ("CudaDriverHelper has not been initialized",)


def show(name: str, line: str, out: TextIO = sys.stdout) -> None:
    """Print one line of one process; lines of several processes never mix. Leave out known noise."""
    if any(noise in line for noise in NOISE):
        return
    with _lock:
        out.write(f"{name:<{WIDTH}} | {line}\n")
        out.flush()


def say(text: str) -> None:
    """Print a message of this program."""
    with _lock:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
