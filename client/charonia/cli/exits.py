"""The exit codes. docs/reference/command-line.md lists them."""

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

FAILED, USAGE, UNREACHABLE, REFUSED = 1, 2, 3, 4


def find_exit_code(error: CharoniaError) -> int:
    """Return the exit code for an error."""
    if isinstance(error, (ConfigurationError, InvalidInput, ResumeError)):
        return USAGE
    if isinstance(error, (ConnectionFailed, DeadlineExceeded, InvalidResponse, Unavailable, ServerError)):
        return UNREACHABLE
    if isinstance(error, APIError):
        return REFUSED
    return FAILED
