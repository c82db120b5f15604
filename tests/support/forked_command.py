"""Processes of commands, and of programs that use the client. A start costs little time.

They are forked from a process that has imported what they need.
"""

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
from collections.abc import Callable, Mapping, Sequence
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
    arguments: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    descriptors: Descriptors,
    be: Callable[[list[str]], None],
) -> ForkServerProcess:
    """Start a process with these standard streams. A terminal among them becomes its own."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([IMPORTS, __name__])
    process = context.Process(target=run, args=(be, [*arguments], {**environment}, str(folder), Streams(descriptors)))
    process.start()
    return process


def run_forked(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    be: Callable[[list[str]], None],
    stdin: str = "",
    timeout: float = 60,
) -> "subprocess.CompletedProcess[str]":
    """Run a process with files as its standard streams until its end."""
    with contextlib.ExitStack() as cleanup:
        given, out, err = (cleanup.enter_context(tempfile.TemporaryFile("w+")) for _ in STANDARD)
        given.write(stdin)
        given.seek(0)
        process = fork(arguments, environment, folder, (given.fileno(), out.fileno(), err.fileno()), be)
        try:
            process.join(timeout)
            out.seek(0)
            err.seek(0)
            if process.exitcode is None:
                raise subprocess.TimeoutExpired([*arguments], timeout, out.read(), err.read())
            return subprocess.CompletedProcess([*arguments], process.exitcode, out.read(), err.read())
        finally:
            end(process)


def end(process: ForkServerProcess) -> None:
    """Kill a command if it still runs, and forget it. The number of one that has ended may be another process's."""
    if process.is_alive():
        process.kill()
    process.join(KILL_SECONDS)
    process.close()


def be_module(argv: list[str]) -> None:
    """Be a module with arguments, as after `python -m`."""
    sys.argv = argv
    for imported in (argv[0], f"{argv[0]}.__main__"):  # which runs as __main__ now
        sys.modules.pop(imported, None)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    runpy.run_module(argv[0], run_name="__main__", alter_sys=True)


def be_program(arguments: list[str]) -> None:
    """Be a program in Python. The only argument is its text."""
    (program,) = arguments
    exec(program, {"__name__": "__main__"})  # noqa: S102


def run(
    be: Callable[[list[str]], None], arguments: list[str], environment: dict[str, str], folder: str, streams: Streams
) -> None:
    """Be a command or a program, in a process of its own."""
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
    be(arguments)
