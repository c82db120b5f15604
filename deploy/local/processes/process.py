"""Starts, watches, freezes, stops and kills one child process, with all processes that it has started."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from deploy.local.errors import NotReady, ProcessDied
from deploy.local.processes.log import Listener, Log
from deploy.local.processes.tree import alive, freeze, members, send

POLL_SECONDS = 0.05
REAP_SECONDS = 5.0  # in which the system removes a killed process

# Linux ends a child with the *thread* that started it (PR_SET_PDEATHSIG). Threads of pools end at any time.
# So one thread starts every child, and lives as long as this process.
_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="starter")


class Process:
    """A program that runs in a session of its own, and may be started more than once.

    It gets `stop_signal` when this process ends, for whatever reason. Its output is appended to the file `log`.
    `identity` has more options of setpriv(1), such as `--reuid`. `wrapper` may be changed before a start: it is the
    beginning of a command that runs the program, without that identity.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        log: Path,
        stop_signal: signal.Signals = signal.SIGTERM,
        identity: Sequence[str] = (),
        on_line: Listener | None = None,
    ) -> None:
        self.name = name
        self.log = Log(name, log, on_line)
        self.wrapper: Sequence[str] = ()
        self._ending = ["setpriv", "--pdeathsig", stop_signal.name.removeprefix("SIG")]
        self._argv = [*self._ending, *identity, *argv]
        self._env = dict(env)
        self._cwd = cwd
        self._stop_signal = stop_signal
        self._child: subprocess.Popen[bytes] | None = None
        self._gone = False

    @property
    def pid(self) -> int | None:
        """The process id, also after the process has ended; None before the first start."""
        return self._child.pid if self._child else None

    @property
    def running(self) -> bool:
        """Return whether it has started and not ended; true while frozen."""
        return self._child is not None and self._child.poll() is None

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal; None while running or before the first start."""
        return self._child.poll() if self._child else None

    def become(self) -> NoReturn:
        """Let this process become the program, with this terminal as its own."""
        os.chdir(self._cwd)
        argv = self._argv[len(self._ending) :]
        os.execvpe(argv[0], argv, self._env)

    def start(self) -> None:
        """Start it, unless it runs."""
        if self.running:
            return
        self.kill()  # processes left by an earlier run
        started: Future[None] = _starter.submit(self._spawn)
        try:
            started.result()
        except KeyboardInterrupt:
            wait([started], timeout=REAP_SECONDS)  # or the child would start later, and nobody would stop it
            raise

    def stop(self, timeout: float = 10.0) -> int | None:
        """Send its stop signal, and kill it after `timeout` seconds; return its exit code."""
        child = self._child
        if child is None:
            return None
        if child.poll() is None:
            child.send_signal(self._stop_signal)
            self.thaw()
            with suppress(subprocess.TimeoutExpired):
                child.wait(timeout)
        self.kill()
        return child.returncode

    def kill(self) -> None:
        """Kill it and all processes that it has started with SIGKILL; return when they are gone."""
        child = self._child
        if child is None or self._gone:
            return
        family = self._family(child)
        child.kill()  # first: it could end by itself once its children are gone
        send(family, signal.SIGKILL)
        child.wait(REAP_SECONDS)
        deadline = time.monotonic() + REAP_SECONDS
        while left := self._family(child) | alive(family):
            if time.monotonic() > deadline:
                raise NotReady(f"{self.name}: processes {sorted(left)} outlive SIGKILL")
            send(left, signal.SIGKILL)
            time.sleep(POLL_SECONDS)
        self._gone = True  # from now on its number may belong to another process

    @staticmethod
    def _family(child: "subprocess.Popen[bytes]") -> set[int]:
        """Return it and all processes that it has started. Once it has ended, who has its number is another."""
        found = members(child.pid)
        return set() if child.returncode is not None and child.pid in found else found

    def freeze(self) -> None:
        """Freeze it and all processes that it has started (SIGSTOP): connections stay open, nothing answers."""
        if (child := self._child) is not None and self.running:
            freeze(lambda: members(child.pid))

    def thaw(self) -> None:
        """Undo freeze()."""
        if self._child is not None and self.running:
            send(members(self._child.pid), signal.SIGCONT)

    def wait_ready(self, probe: Callable[[], bool], timeout: float) -> None:
        """Wait until `probe` is true; raise ProcessDied, or NotReady after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while True:
            self.check()
            if probe():
                return
            if time.monotonic() > deadline:
                raise NotReady(f"{self.name} is not ready after {timeout:g} s{self._context()}")
            time.sleep(POLL_SECONDS)

    def wait_exit(self, timeout: float) -> int:
        """Wait until the program ends by itself; return its exit code."""
        if self._child is None:
            raise ProcessDied(f"{self.name} was never started")
        try:
            return self._child.wait(timeout)
        except subprocess.TimeoutExpired:
            raise NotReady(f"{self.name} still runs after {timeout:g} s{self._context()}") from None

    def check(self) -> None:
        """Raise ProcessDied, with the end of the log, unless it runs."""
        if not self.running:
            ending = "is not running" if self._child is None else f"ended with code {self.returncode}"
            raise ProcessDied(f"{self.name} {ending}{self._context()}")

    def _spawn(self) -> None:
        with self.log.open() as output:
            child = subprocess.Popen(
                [*self._ending, *self.wrapper, *self._argv] if self.wrapper else self._argv,
                env=self._env,
                cwd=self._cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._child, self._gone = child, False
        self.log.follow(lambda: child.poll() is not None)

    def _context(self) -> str:
        return f"; the end of {self.log.path}:\n{self.log.tail()}"
