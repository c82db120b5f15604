"""What every command has: the client, and how to print."""

import functools
import logging
import sys
from types import TracebackType
from typing import Any

import msgspec

from charonia import Charonia
from charonia.cli.terminal.browser import make_address, open_browser
from charonia.cli.terminal.console import SafeConsole, show_text
from charonia.schemas import ApiObject

CALL_SECONDS = 20.0  # of a call with its retries; somebody waits for it


class Retries(logging.Handler):
    """Tells people that the library repeats a call."""

    def __init__(self, session: "Session") -> None:
        super().__init__()
        self._session = session

    def emit(self, record: logging.LogRecord) -> None:
        self._session.note(record.getMessage())


class Session:
    """One run of the command line. Results go to standard output, and all else for people to standard error."""

    def __init__(self, profile: str | None, as_json: bool | None, *, opens: bool = False) -> None:
        self.profile = profile
        self.opens = opens
        self.wants_json = as_json is True  # also if a pipe alone would not mean JSON
        self.as_json = not sys.stdout.isatty() if as_json is None else as_json
        self.out = SafeConsole()
        self.err = SafeConsole(stderr=True)
        self._retries = Retries(self)

    def __enter__(self) -> "Session":
        logging.getLogger("charonia").addHandler(self._retries)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        logging.getLogger("charonia").removeHandler(self._retries)
        if "client" in self.__dict__:
            self.client.close()

    @functools.cached_property
    def client(self) -> Charonia:
        """The client of the profile, or of CHARONIA_URL and CHARONIA_KEY."""
        client = Charonia(profile=self.profile, timeout=CALL_SECONDS)
        client._transport.keeps_json = self.as_json
        return client

    def print_json(self, found: Any) -> None:
        """Print an object as one line, at once: one of the API as it came."""
        body = found._json if isinstance(found, ApiObject) else None
        line = msgspec.json.encode(found) if body is None else body.replace(b"\n", b" ")
        sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()

    def print_text(self, text: str, end: str = "\n", *, raw: bool) -> None:
        """Print a text of a model. With `raw`, a pipe or a file gets it as it is; a terminal never does."""
        if raw and not self.out.is_terminal:
            sys.stdout.write(text + end)
            sys.stdout.flush()
        else:
            self.out.print(show_text(text), end=end, soft_wrap=True)

    def hide_retries(self) -> None:
        """Tell of no more retries: the command shows outages itself."""
        self._retries.setLevel(logging.CRITICAL)

    def open_page(self, path: str, **query: str | None) -> None:
        """Open a page of the console, if `--open` asks for it. If there is no browser, print its address."""
        if self.opens:
            address = make_address(self.client.url, path, query)
            if not open_browser(address):
                self.note(address)

    def note(self, text: str) -> None:
        """Tell people something that is no result."""
        self.err.print(show_text(text), soft_wrap=True)
