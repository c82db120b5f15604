"""The life of a service process: settings, loops, signal, drain, end."""

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NoReturn, TypeVar

import uvloop

from common.errors import CharoniaError, SettingsError
from common.settings import Settings, load
from common.telemetry import logs, tracing

OPEN_FILES = 65_536
GC_THRESHOLD = 20_000  # new objects between two collections

S = TypeVar("S", bound=Settings)
Run = Callable[[S, asyncio.Event], Awaitable[None]]


def main(service: str, kind: type[S], run: Run[S]) -> int:
    """Run a service until SIGTERM or SIGINT. Return its exit code: 0 after a drain, else the error's."""
    try:
        settings = load(kind)
    except SettingsError as error:
        return _fail(service, error)
    logs.configure(settings.log_format, settings.log_level)
    raise_open_files_limit()
    tune_garbage_collector()
    try:
        tracing.configure(service)
        uvloop.run(_run_until_signal(run, settings))
    except CharoniaError as error:
        return _fail(service, error)
    except SystemExit as error:  # a port is taken
        return _fail(service, CharoniaError(str(error)))
    finally:
        tracing.shutdown()
        logging.shutdown()
    return 0


def _fail(service: str, error: CharoniaError) -> int:
    print(f"{service}: {error}", file=sys.stderr)
    return error.exit_code


def run_command(command: Callable[[], int]) -> NoReturn:
    """Run a command, and end the process at once with its exit code: 130 after Ctrl-C, 1 after an unexpected error.

    No exit handler runs, and no thread is waited for. A thread of obstore may still hold a Python call, and an
    interpreter that ends slowly aborts it.
    """
    try:
        code = command()
    except KeyboardInterrupt:
        code = 130
    except Exception:  # Python would print it as well, and then end slowly
        traceback.print_exc()
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # nobody may read it any more
            stream.flush()
    os._exit(code)


def raise_open_files_limit() -> None:
    """Raise the limit of open files, and so of connections. Most systems start a process with 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY:
        most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
        with contextlib.suppress(OSError, ValueError):  # the system may still refuse
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


def tune_garbage_collector() -> None:
    """Collect cycles less often, and never among the modules that are loaded.

    By default Python collects after every few hundred new objects. A request makes many objects and few cycles.
    """
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, 20, 20)


async def _run_until_signal(run: Run[S], settings: S) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    await run(settings, stopping)


async def run_until_stopped(
    loops: dict[str, Coroutine[Any, Any, None]], stopping: asyncio.Event, drain: Callable[[], Awaitable[None]]
) -> None:
    """Run loops until `stopping` is set. Drain while they still run, then cancel them.

    A loop that ends by itself is a bug. The service then drains and ends with the loop's error.
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
