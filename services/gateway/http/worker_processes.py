"""Processes that work on large bodies beside the event loop.

One call into C, such as msgspec's decoder, holds the interpreter's lock until it returns. The worst 16 MB take it more
than a second, so a thread would block the event loop too.
"""

import asyncio
import contextlib
import importlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection
from typing import ParamSpec, TypeVar

from common.errors import Unavailable
from common.telemetry.logs import Log

LARGE = 256 * 1024  # bytes; smaller bodies are worked on in place, which takes 20 ms at most
PROCESSES = 2
SECONDS = 60.0  # for one task, including its time in the queue

P = ParamSpec("P")
T = TypeVar("T")
log = Log("workers")


class Workers:
    """A pool of processes, started with the first large body: its lock tracker alone takes 12 MB."""

    def __init__(self, processes: int = PROCESSES, seconds: float = SECONDS, preload: Sequence[str] = ()) -> None:
        """`seconds` is the time limit of a task; `preload` are modules that each process imports at its start."""
        self._processes = processes
        self.seconds = seconds
        self._preload = tuple(preload)
        self._pool: ProcessPoolExecutor | None = None

    def _make_pool(self) -> ProcessPoolExecutor:
        # A fork would copy the threads' locks. A new process costs 0.5 s, once, and 44 MB.
        spawn = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self._processes, spawn, initializer=start_worker, initargs=(self._preload,))

    async def work(self, size: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the function: in place for a small `size` in bytes, else in another process, by pickle.

        Raises Unavailable if that takes too long or the process was killed.
        """
        return await self.run(function, *args, **kwargs) if size > LARGE else function(*args, **kwargs)

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the function in another process; raises as `work` does."""
        with contextlib.suppress(BrokenProcessPool):  # most likely caused by another task
            return await self._try_once(function, *args, **kwargs)
        try:
            return await self._try_once(function, *args, **kwargs)
        except BrokenProcessPool as error:
            raise Unavailable from error

    async def _try_once(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        pool = self._pool = self._pool or self._make_pool()
        try:
            async with asyncio.timeout(self.seconds):
                return await asyncio.wrap_future(pool.submit(function, *args, **kwargs))
        except (TimeoutError, BrokenProcessPool) as error:
            log.warning("workers.replaced", error=repr(error))
            if pool is self._pool:
                self.close()  # the pool's other tasks fail too
            if isinstance(error, TimeoutError):
                raise Unavailable from error
            raise

    def close(self) -> None:
        """Kill the processes: nothing of theirs is kept, and a hung one would never end."""
        if self._pool is not None:
            for worker in list((self._pool._processes or {}).values()):  # no method has them
                worker.kill()
            self._pool.shutdown(wait=False)
            self._pool = None


def start_worker(preload: Sequence[str]) -> None:
    """Prepare a worker process: it ends only with its parent, and leaves signals to it."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=follow_parent, daemon=True).start()
    for module in preload:
        importlib.import_module(module)


def follow_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker process has a parent"
    connection.wait([parent.sentinel])
    os._exit(0)
