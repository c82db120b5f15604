"""Starts the command line, and turns errors into messages and exit codes."""

import contextlib
import sys

from charonia.cli.terminal import streams
from charonia.cli.terminal.control_characters import show_controls
from charonia.errors import CharoniaError

OK, USAGE, LOCAL, INTERRUPTED = 0, 2, 5, 130


def main() -> None:
    """Run the command in `sys.argv`, and exit."""
    try:
        streams.open_closed()
        code = run()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe has enough
        code = OK
    except CharoniaError as error:
        from charonia.cli.exits import find_exit_code

        say(str(error))
        code = find_exit_code(error)
    except OSError as error:
        say(describe(error))
        code = LOCAL
    sys.exit(close_output(code))


def close_output(code: str | int | None) -> str | int | None:
    """Write what is left for standard output, and return the exit code: a new one if that fails first."""
    try:
        streams.flush()
    except OSError as error:
        streams.drop()
        if code or isinstance(error, BrokenPipeError):
            return code
        say(describe(error))
        return LOCAL
    return code


def run() -> str | int | None:
    """Run the command, and return its exit code."""
    try:
        from charonia.cli.app import app
    except ImportError as error:
        say(f"the command line needs more packages ({error}); run: pip install rich typer")
        return USAGE
    try:
        app()
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # typer has turned it into 1
            raise end.__context__ from None
        return end.code
    return OK


def describe(error: OSError) -> str:
    """Return what is wrong with a local file or stream."""
    where = error.filename if error.filename is not None else "standard input, standard output or a local file"
    return f"{where}: {error.strerror or error}"


def say(text: str) -> None:
    """Tell people of an error, if anybody can see it."""
    with contextlib.suppress(OSError):
        print(f"charonia: {show_controls(text)}", file=sys.stderr, flush=True)
