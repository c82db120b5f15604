"""Runs the command line `charonia` as a user does: in a pipe, or on a terminal of 80 columns."""

import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from deploy.local.settings import ROOT
from deploy.local.stack import Stack
from tests.support.forked_command import be_module, end, fork, run_forked

CONTROL = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[@-_])")
MODULE = "charonia.cli"
ARGV = [sys.executable, "-m", MODULE]
INSTALLED = ".venv/bin/charonia"  # as the docs call it
COLUMNS, ROWS = 80, 24
Finished = subprocess.CompletedProcess[str]


def make_environment(url: str, key: str, home: Path, **more: str) -> dict[str, str]:
    """Return the variables of a user's shell."""
    own = {"CHARONIA_URL": url, "CHARONIA_KEY": key, "HOME": str(home), "PYTHONPATH": str(ROOT / "client")}
    passed = {name: os.environ[name] for name in ("PATH", "SSL_CERT_FILE")}
    return {"TERM": "xterm-256color", **passed, **own, **more}


def run_sources(command: str) -> str:
    """Return a command of the docs that runs the client of this repository, whatever is installed."""
    return command.replace(INSTALLED, f"PYTHONPATH={ROOT / 'client'} {' '.join(ARGV)}")


def read_lines(process: "subprocess.Popen[str]", count: int, seconds: float = 60) -> list[Any]:
    """Return the next JSON lines of a command. Kill it if they take longer."""
    assert process.stdout is not None
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        lines = [process.stdout.readline() for _ in range(count)]
    finally:
        timer.cancel()
    assert all(lines), f"no {count} lines within {seconds:g} s: {lines}"
    return [json.loads(line) for line in lines]


class CommandLine:
    """The command line with a key of a stack."""

    def __init__(self, stack: Stack, key: str, home: Path) -> None:
        self.home = home
        self.environment = make_environment(stack.url, key, home)
        self._started: list[subprocess.Popen[str]] = []

    def close(self) -> None:
        """End the started commands that still run."""
        for process in self._started:
            with process:  # this closes its pipes
                process.kill()

    def run(self, *arguments: str, stdin: str = "", timeout: float = 60, **environment: str) -> Finished:
        """Run a command that does not write to a terminal until its end."""
        return run_forked([MODULE, *arguments], self.environment | environment, self.home, be_module, stdin, timeout)

    def read(self, *arguments: str, stdin: str = "") -> list[Any]:
        """Return the JSON lines of a command that ends well."""
        found = self.run(*arguments, stdin=stdin)
        assert found.returncode == 0, found.stderr
        return [json.loads(line) for line in found.stdout.splitlines()]

    def tell(self, *arguments: str) -> str:
        """Return what a command that ends well tells people: its output, then its notes."""
        found = self.run(*arguments, "--no-json")
        assert found.returncode == 0, found.stderr
        return found.stdout + found.stderr

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start a command in pipes. close() ends it."""
        process = subprocess.Popen(
            [*ARGV, *arguments],
            env=self.environment,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=heed_interrupts,
        )
        self._started.append(process)
        return process

    @contextlib.contextmanager
    def on_terminal(self, *arguments: str, **environment: str) -> Iterator["Terminal"]:
        """Start a command on a terminal, and end it."""
        terminal = Terminal(arguments, self.environment | environment, self.home)
        try:
            yield terminal
        finally:
            terminal.close()


class Terminal:
    """A command on a terminal of its own. `raw` is all that it wrote, `text` the same without control sequences."""

    def __init__(self, arguments: Sequence[str], environment: dict[str, str], folder: Path) -> None:
        self._side, inner = pty.openpty()
        termios.tcsetwinsize(inner, (ROWS, COLUMNS))
        self._process = fork([MODULE, *arguments], environment, folder, (inner, inner, inner), be_module)
        os.close(inner)
        self._bytes = b""

    @property
    def raw(self) -> str:
        return self._bytes.decode(errors="replace")

    @property
    def text(self) -> str:
        return CONTROL.sub("", self.raw).replace("\r\n", "\n")

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._side, text.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        with contextlib.suppress(OSError):  # the command has ended
            self.type("\x03")

    def wait_for(self, text: str, seconds: float = 30) -> str:
        """Return what is written once it has this text."""
        return self.wait_until(lambda written: text in written, seconds, repr(text))

    def wait_until(self, check: Callable[[str], bool], seconds: float = 30, wanted: str = "end of the wait") -> str:
        """Return what is written once it passes a check."""
        until = time.monotonic() + seconds
        while not check(self.text):
            assert self._read(until), f"no {wanted} in:\n{self.text}"
        return self.text

    def interrupt_until_end(self, times: int = 5) -> int:
        """Press Ctrl-C until the command ends. Python may miss one just before it reads a line.

        The pauses are long: another Ctrl-C during a slow exit gives a traceback.
        """
        for _ in range(times):
            self.interrupt()
            with contextlib.suppress(TimeoutError):
                return self.wait(10)
        raise AssertionError(f"{times} interrupts did not end:\n{self.text}")

    def wait(self, seconds: float = 60) -> int:
        """Return the exit code once the command has ended."""
        until = time.monotonic() + seconds
        while self._read(until):
            continue
        self._process.join(max(0.1, until - time.monotonic()))
        if self._process.exitcode is None:
            raise TimeoutError(f"it still runs:\n{self.text}")
        return self._process.exitcode

    def _read(self, until: float) -> bool:
        """Read some more. Return False at the end, or after the time."""
        if not select.select([self._side], [], [], max(0, until - time.monotonic()))[0]:
            return False
        try:
            found = os.read(self._side, 65_536)
        except OSError:  # the command has ended
            return False
        self._bytes += found
        return bool(found)

    def close(self) -> None:
        """End the command, if it still runs."""
        end(self._process)
        os.close(self._side)


def heed_interrupts() -> None:
    """Let SIGINT end this process. A test run in the background of a shell ignores it, and so do its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
