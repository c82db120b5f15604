"""Processes of commands that are forked from one that has imported them: a start costs little time."""

import contextlib
import fcntl
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import termios
from collections.abc import Mapping, Sequence
from multiprocessing import reduction
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Protocol

IMPORTS = "tests.support.command_imports"
KILL_SECONDS = 10
STANDARD = (0, 1, 2)  # descriptors
Descriptors = tuple[int, int, int]


class Sent(Protocol):
    """A descriptor that another process sent."""

    def detach(self) -> int: ...


class Streams:
    """The standard streams of a command. Pickled, they are open in its process."""

    def __init__(self, descriptors: Descriptors) -> None:
        self.descriptors = descriptors

    def __reduce__(self) -> tuple[object, ...]:
        return receive, tuple(map(reduction.DupFd, self.descriptors))


def receive(*sent: Sent) -> Streams:
    first, second, third = (each.detach() for each in sent)
    return Streams((first, second, third))


def fork(
    argv: Sequence[str], environment: Mapping[str, str], folder: Path, descriptors: Descriptors
) -> ForkServerProcess:
    """Start a module with arguments, as `python -m` does, with these standard streams.

    A terminal among them becomes its own.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([IMPORTS, __name__])
    process = context.Process(target=run, args=([*argv], {**environment}, str(folder), Streams(descriptors)))
    process.start()
    return process


def run_forked(
    argv: Sequence[str], environment: Mapping[str, str], folder: Path, stdin: str = "", timeout: float = 60
) -> "subprocess.CompletedProcess[str]":
    """Run a module with arguments, and files as its standard streams, until its end."""
    with contextlib.ExitStack() as cleanup:
        given, out, err = (cleanup.enter_context(tempfile.TemporaryFile("w+")) for _ in STANDARD)
        given.write(stdin)
        given.seek(0)
        process = fork(argv, environment, folder, (given.fileno(), out.fileno(), err.fileno()))
        try:
            process.join(timeout)
            out.seek(0)
            err.seek(0)
            if process.exitcode is None:
                raise subprocess.TimeoutExpired([*argv], timeout, out.read(), err.read())
            return subprocess.CompletedProcess([*argv], process.exitcode, out.read(), err.read())
        finally:
            end(process)


def end(process: ForkServerProcess) -> None:
    """Kill a command if it still runs, and forget it. The number of one that has ended may be another process's."""
    if process.is_alive():
        process.kill()
    process.join(KILL_SECONDS)
    process.close()


def run(argv: list[str], environment: dict[str, str], folder: str, streams: Streams) -> None:
    """Be the command, in a process of its own."""
    os.setsid()
    for descriptor, opened in zip(STANDARD, streams.descriptors, strict=True):
        os.dup2(opened, descriptor)
        os.close(opened)
    if os.isatty(0):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(each, "w" if each else "r", closefd=False) for each in STANDARD)
    sys.stderr.reconfigure(line_buffering=True)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = argv
    sys.modules.pop(argv[0], None)  # it may be imported, and runs as __main__ now
    runpy.run_module(argv[0], run_name="__main__", alter_sys=True)
