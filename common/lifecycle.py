"""The life of a service process: settings, loops, a signal, draining, the end."""

import asyncio
import contextlib
import gc
import logging
import resource
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import uvloop

from common import logs, tracing
from common.errors import CharoniaError, SettingsError
from common.settings import Settings, load

OPEN_FILES = 65_536
NEW_OBJECTS = 20_000  # between two looks for cycles among them

S = TypeVar("S", bound=Settings)
Run = Callable[[S, asyncio.Event], Awaitable[None]]


def main(service: str, kind: type[S], run: Run[S]) -> int:
    """Runs a service until SIGTERM or SIGINT; its exit code: 0 drained, 1 failed, 2 wrong settings."""
    try:
        settings = load(kind)
    except SettingsError as error:
        print(f"{service}: {error}", file=sys.stderr)
        return 2
    logs.configure(settings.log_format, settings.log_level)
    allow_files()
    tend_garbage()
    try:
        tracing.configure(service)
        uvloop.run(listen(run, settings))
    except SettingsError as error:
        print(f"{service}: {error}", file=sys.stderr)
        return 2
    except CharoniaError as error:
        print(f"{service}: {error}", file=sys.stderr)
        return 1
    except SystemExit:  # uvicorn's, after it has said why it can't listen
        print(f"{service}: cannot listen on {settings.host}:{settings.port}", file=sys.stderr)
        return 1
    finally:
        tracing.shutdown()
        logging.shutdown()
    return 0


def allow_files() -> None:
    """Takes what is allowed of open files, and so of connections: most systems start a process with 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY:
        most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
        with contextlib.suppress(OSError, ValueError):  # what the system refuses after all
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


def tend_garbage() -> None:
    """Looks for cycles less often, and never among what was loaded: a request makes more objects than there are cycles.

    By default each few hundred new objects are looked at, and now and then all there are.
    """
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, 20, 20)


async def listen(run: Run[S], settings: S) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    await run(settings, stopping)


async def keep_running(
    loops: dict[str, Coroutine[Any, Any, None]], stopping: asyncio.Event, drain: Callable[[], Awaitable[None]]
) -> None:
    """Runs loops that never end until `stopping` is set, drains while they still run, and ends them.

    A loop that ends by itself is a bug: it takes the service down, drained, with its error.
    """
    tasks: list[asyncio.Task[Any]] = [asyncio.create_task(loop, name=name) for name, loop in loops.items()]
    waiting: asyncio.Task[Any] = asyncio.create_task(stopping.wait(), name="stopping")
    done, _ = await asyncio.wait([*tasks, waiting], return_when=asyncio.FIRST_COMPLETED)
    stopping.set()
    try:
        await drain()
    finally:
        waiting.cancel()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=10)
    for task in done - {waiting}:
        task.result()
        raise CharoniaError(f"the loop '{task.get_name()}' ended by itself")
