"""What differs between the halves: how to sleep, and how to do blocking work."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def run_blocking(work: Callable[[], T]) -> T:
    """Return what `work` returns. It may read files, and blocks."""
    return work()
