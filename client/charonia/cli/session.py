"""What every command has: the client, and how to print."""

import functools
import sys
from types import TracebackType
from typing import Any

import msgspec
from rich.console import Console

from charonia import Charonia
from charonia.cli.terminal.browser import make_address, open_browser

CALL_SECONDS = 20.0  # of a call with its retries; somebody waits for it


class Session:
    """One run of the command line. Results go to standard output, and all else for people to standard error."""

    def __init__(self, profile: str | None, as_json: bool | None, *, opens: bool = False) -> None:
        self.profile = profile
        self.opens = opens
        self.as_json = not sys.stdout.isatty() if as_json is None else as_json
        self.out = Console(highlight=False)
        self.err = Console(highlight=False, stderr=True)

    def __enter__(self) -> "Session":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if "client" in self.__dict__:
            self.client.close()

    @functools.cached_property
    def client(self) -> Charonia:
        """The client of the profile, or of CHARONIA_URL and CHARONIA_KEY."""
        return Charonia(profile=self.profile, timeout=CALL_SECONDS)

    def print_json(self, found: Any) -> None:
        """Print an object as one line, at once."""
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
        sys.stdout.buffer.flush()

    def open_page(self, path: str, **query: str | None) -> None:
        """Open a page of the console, if `--open` asks for it. If there is no browser, print its address."""
        if self.opens:
            address = make_address(self.client.url, path, query)
            if not open_browser(address):
                self.note(address)

    def note(self, text: str) -> None:
        """Tell people something that is no result."""
        self.err.print(text, markup=False, soft_wrap=True)
