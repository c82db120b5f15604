"""Limits a template that an operator wrote, in a process of its own: seconds of CPU, and memory.

A signal interrupts it between two steps of Python. What a single step of C takes beyond that ends with the process,
after the time limit of its pool (services/gateway/http/worker_processes.py).
"""

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from services.gateway.openai.templates.rendering import failed

CPU_SECONDS = 1.0
MEMORY = 256 * 1024 * 1024  # bytes beyond what the process has
POOL_SECONDS = 10.0
STATISTICS = Path("/proc/self/statm")


class TooSlow(Exception):
    """The time is over."""


def stop(_signal: int, _frame: object) -> NoReturn:
    raise TooSlow


@contextmanager
def limited() -> Iterator[None]:
    """Raise Problem (500) if the block takes too long or too much memory. Only for the main thread of a worker."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(STATISTICS.read_text().split()[0]) * resource.getpagesize()
    most = used + MEMORY if before[1] == resource.RLIM_INFINITY else min(used + MEMORY, before[1])
    handler = signal.signal(signal.SIGPROF, stop)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        yield
    except TooSlow as error:
        raise failed(f"it takes more than {CPU_SECONDS:g} s") from error
    except MemoryError as error:
        raise failed(f"it takes more than {MEMORY} bytes") from error
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, before)
        signal.signal(signal.SIGPROF, handler)
