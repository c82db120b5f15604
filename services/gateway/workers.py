"""Work on large bodies, in processes of their own.

One call into C, such as msgspec's decoder, holds the interpreter's lock for as long as it takes, a second and more with
the worst 16 MB: in a thread it would hold up the event loop all the same.
"""

import asyncio
import contextlib
import importlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection
from typing import ParamSpec, TypeVar

from common.errors import Unavailable
from common.logs import Log

LARGE = 256 * 1024  # bytes; what is no larger is worked on at once, for 20 ms at most
PROCESSES = 2
SECONDS = 60.0  # for one piece of work, with those before it

P = ParamSpec("P")
T = TypeVar("T")
log = Log("workers")


class Workers:
    def __init__(self, processes: int = PROCESSES, seconds: float = SECONDS) -> None:
        self.processes = processes
        self.seconds = seconds
        self.pool: ProcessPoolExecutor | None = None  # once there is work: the tracker of its locks alone takes 12 MB

    def make(self) -> ProcessPoolExecutor:
        # A fork would have the threads' locks; a new process costs 0.5 s, once, and 44 MB.
        spawn = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self.processes, spawn, initializer=begin)

    async def work(self, size: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the function returns or raises: at once for so few bytes, else beside the event loop.

        Raises Unavailable where that takes too long, or the process was killed. What goes there and back is pickled.
        """
        return await self.run(function, *args, **kwargs) if size > LARGE else function(*args, **kwargs)

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        with contextlib.suppress(BrokenProcessPool):  # which most likely was not this piece of work's doing
            return await self.try_once(function, *args, **kwargs)
        try:
            return await self.try_once(function, *args, **kwargs)
        except BrokenProcessPool as error:
            raise Unavailable from error

    async def try_once(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        pool = self.pool = self.pool or self.make()
        try:
            async with asyncio.timeout(self.seconds):
                return await asyncio.wrap_future(pool.submit(function, *args, **kwargs))
        except (TimeoutError, BrokenProcessPool) as error:
            log.warning("workers.replaced", error=repr(error))
            if pool is self.pool:
                self.close()  # who else waits there hears the same
            if isinstance(error, TimeoutError):
                raise Unavailable from error
            raise

    def close(self) -> None:
        """At once: nothing of it is kept, and a worker that hangs would never end."""
        for worker in multiprocessing.active_children():
            worker.kill()
        if self.pool is not None:
            self.pool.shutdown(wait=False)
            self.pool = None


def begin() -> None:
    """In a worker, which ends with its parent, however that ends, and only then: signals to their group are for it."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=follow_parent, daemon=True).start()
    importlib.import_module("services.gateway.reading")  # what it will need


def follow_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker has one"
    connection.wait([parent.sentinel])
    os._exit(0)
