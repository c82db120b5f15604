"""Runs a demo on a stack of its own: signals, errors, and the start and stop of the stack."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from charonia import CharoniaError

from deploy.local.errors import LocalError
from deploy.local.install import find_steps, run_steps
from deploy.local.settings import Settings
from deploy.local.stack import Stack
from deploy.local.terminal import say


def run_demo(show: Callable[[Settings], None], change: Callable[[Settings], Settings] = lambda given: given) -> int:
    """Install what the demo needs, show it, and return the exit code. `change` gives it settings of its own."""
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)  # a shell that starts us in the background ignores it
    started = time.monotonic()
    try:
        settings = change(Settings.load(os.environ))
        run_steps(find_steps(settings))
        show(settings)
    except KeyboardInterrupt as interrupt:
        say("Stopped.")
        return 128 + int(interrupt.args[0])
    except (LocalError, CharoniaError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    say(f"The demo took {time.monotonic() - started:.1f} s, including the start and stop of the stack.")
    return 0


@contextmanager
def run_stack(settings: Settings) -> Iterator[Stack]:
    """Yield a stack that runs, and stop it afterwards, also if it did not start as a whole."""
    stack = Stack(settings)
    try:
        started = time.monotonic()
        say(f"Starting PostgreSQL, RabbitMQ, Triton and Charonia's services; their logs are in {stack.log_dir}.")
        stack.start()
        say(f"Ready after {time.monotonic() - started:.1f} s.")
        yield stack
    finally:
        _stop(stack)


def _stop(stack: Stack) -> None:
    # A second Ctrl-C must not leave servers behind; each stop has its own deadline.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if stack.is_locked:  # else it did not start, or has stopped already
        say("Stopping …")
        stack.stop()


def tell(milliseconds: float, step: str, text: str) -> None:
    """Print a step, with the time since the beginning, or more of the step before."""
    say(f"{milliseconds:>8.0f} ms  {step:<11} {text}" if step else f"{'':>24}{text}")


def keep_quiet(milliseconds: float, step: str, text: str) -> None:
    """Print nothing."""


def _interrupt(number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt(number)
