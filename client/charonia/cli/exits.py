"""The exit codes. docs/reference/command-line.md lists them."""

from collections.abc import Iterator
from contextlib import contextmanager

from charonia.calls import Deadline
from charonia.errors import (
    APIError,
    CharoniaError,
    ConfigurationError,
    ConnectionFailed,
    DeadlineExceeded,
    InvalidInput,
    InvalidResponse,
    ResumeError,
    ServerError,
    Unavailable,
)

FAILED, USAGE, UNREACHABLE, REFUSED, WAITED = 1, 2, 3, 4, 6


class WaitEnded(DeadlineExceeded):
    """The command has waited as long as it was told to."""


@contextmanager
def limit_wait(timeout: float) -> Iterator[Deadline]:
    """Yield the deadline of a wait. Raise WaitEnded in place of DeadlineExceeded once it is over."""
    deadline = Deadline(timeout)
    try:
        yield deadline
    except DeadlineExceeded as error:
        if deadline.left:
            raise
        raise WaitEnded(str(error)) from error


def find_exit_code(error: CharoniaError) -> int:
    """Return the exit code for an error."""
    if isinstance(error, WaitEnded):
        return WAITED
    if isinstance(error, (ConfigurationError, InvalidInput, ResumeError)):
        return USAGE
    if isinstance(error, (ConnectionFailed, DeadlineExceeded, InvalidResponse, Unavailable, ServerError)):
        return UNREACHABLE
    if isinstance(error, APIError):
        return REFUSED
    return FAILED
