"""Reads keys on a terminal as they are pressed."""

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

try:
    import termios
    import tty
except ImportError:  # Windows
    HAS_KEYS = False
else:
    HAS_KEYS = True


@contextmanager
def on_key(keys: bytes, act: Callable[[], object]) -> Iterator[None]:
    """Call `act` in the event loop when one of the keys is pressed. Without a terminal, none ever is."""
    if not (HAS_KEYS and sys.stdin.isatty()):
        yield
        return
    descriptor = sys.stdin.fileno()
    loop = asyncio.get_running_loop()

    def read() -> None:
        pressed = os.read(descriptor, 1024)
        if not pressed:  # the terminal is gone
            loop.remove_reader(descriptor)
        if not pressed or any(key in keys for key in pressed):
            act()

    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, read)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSAFLUSH, before)
