"""Calls async functions in processes of their own, so that their CPU time is counted apart."""

import asyncio
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")
Function = Callable[..., Coroutine[Any, Any, T]]
CALL_SECONDS = 240.0  # until a call fails, beyond the `seconds` among its arguments

_loop = uvloop.new_event_loop()  # of the child, where all calls run
_objects: dict[str, object] = {}


class ChildProcess:
    """Functions are given as they are; methods are called on one object of their class, made without arguments."""

    def __init__(self) -> None:
        self._executor = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=_start)
        self.pid: int = self._executor.submit(os.getpid).result(CALL_SECONDS)

    def call(self, function: Function[T], **arguments: Any) -> T:
        """Return the result, or raise what the function raises; raise TimeoutError if neither comes in time."""
        return self.start(function, **arguments).result(CALL_SECONDS + (arguments.get("seconds") or 0.0))

    def start(self, function: Function[T], **arguments: Any) -> Future[T]:
        """Call without waiting for the result."""
        return self._executor.submit(_call, function, arguments)

    def stop(self) -> None:
        """End the process, whatever it does."""
        os.kill(self.pid, signal.SIGKILL)
        self._executor.shutdown(cancel_futures=True)


def _start() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which stops this process
    threading.Thread(target=_loop.run_forever, daemon=True).start()


def _call(function: Function[T], arguments: dict[str, Any]) -> T:
    return asyncio.run_coroutine_threadsafe(_run(function, arguments), _loop).result()


async def _run(function: Function[T], arguments: dict[str, Any]) -> T:
    owner = function.__qualname__.rpartition(".")[0]
    if owner and owner not in _objects:
        _objects[owner] = getattr(sys.modules[function.__module__], owner)()
    return await function(*([_objects[owner]] if owner else []), **arguments)
