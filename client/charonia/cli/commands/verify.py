"""Checks a saved webhook: verify."""

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.text import Text

from charonia import CharoniaError, InvalidResponse
from charonia.cli import options
from charonia.cli.arguments import InvalidArgument
from charonia.cli.registry import command
from charonia.cli.session import Session
from charonia.cli.terminal.tables import Cell, print_fields, show_seconds, show_time
from charonia.events import Event
from charonia.webhook_signatures import SECRET, verify

USUAL_TOLERANCE = 300.0  # seconds; that of receivers

Body = Annotated[str, typer.Argument(metavar="[FILE]", help="The exact body, and - for standard input.")]
Headers = Annotated[
    options.Texts, typer.Option("--header", metavar="NAME:VALUE", help="A header of the webhook. Repeatable.")
]
HeaderFile = Annotated[
    options.Text,
    typer.Option("--header-file", metavar="FILE", help="A file of headers: lines NAME: VALUE, or a JSON object."),
]
SecretOption = Annotated[
    options.Text, typer.Option("--secret", envvar=SECRET, help="The secret whsec_… or the public key whpk_….")
]
Tolerance = Annotated[
    float, typer.Option(min=0, metavar="SECONDS", help="How old the webhook may be; by default of any age.")
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "verify", rich_help_panel="Webhooks")(verify_saved)


def verify_saved(
    session: Session,
    body: Body = "-",
    header: Headers = None,
    header_file: HeaderFile = None,
    secret: SecretOption = None,
    tolerance: Tolerance = float("inf"),
) -> None:
    """Check the signature of a saved webhook, and print its event. Exit with 1 if the signature is wrong.

    For example: `charonia verify body.json --header-file headers.txt`.
    """
    given = (read_header_file(header_file) if header_file else {}) | options.read_headers("--header", header)
    content = read_body(body)
    try:
        event = verify(content, given, secret, tolerance=tolerance)
    except InvalidResponse as error:
        raise CharoniaError(f"the signature is right, but the body is {error}") from error
    if session.as_json:
        session.print_json({"id": event.id, **msgspec.json.decode(content)})
    else:
        print_event(session, event, msgspec.json.decode(content).get("data"))
    age = find_age(given)
    if age > USUAL_TOLERANCE:
        session.note(f"the webhook is {show_seconds(age)} old; a receiver refuses it after {USUAL_TOLERANCE / 60:.0f}m")


def print_event(session: Session, event: Event, data: Any) -> None:
    """Print an event for people."""
    fields: list[tuple[str, Cell | None]] = [
        ("signature", Text("right", "green")),
        ("type", event.type),
        ("id", event.id),
        ("time", show_time(event.timestamp)),
        ("data", msgspec.json.format(msgspec.json.encode(data), indent=2).decode()),
    ]
    print_fields(session, fields)


def find_age(headers: dict[str, str]) -> float:
    """Return how many seconds ago a verified webhook was signed."""
    return time.time() - int(next(value for name, value in headers.items() if name.lower() == "webhook-timestamp"))


def read_body(path: str) -> bytes:
    """Return the bytes of a file, or of standard input. Raise InvalidArgument."""
    if path == "-":
        if sys.stdin.isatty():
            raise InvalidArgument("which body? Name a file, or write: charonia verify < FILE")
        return sys.stdin.buffer.read()
    return read_file(path)


def read_file(path: str) -> bytes:
    """Return the bytes of a file. Raise InvalidArgument."""
    try:
        return Path(path).expanduser().read_bytes()
    except OSError as error:
        raise InvalidArgument(f"the file {path!r} cannot be read: {error.strerror}") from error


def read_header_file(path: str) -> dict[str, str]:
    """Return the headers in a file. Raise InvalidArgument if it has neither lines of headers nor a JSON object."""
    content = read_file(path)
    if content.lstrip().startswith(b"{"):
        try:
            return msgspec.json.decode(content, type=dict[str, str])
        except msgspec.DecodeError as error:
            raise InvalidArgument(f"the headers in {path!r} are no JSON object of texts: {error}") from error
    lines = content.decode(errors="replace").splitlines()
    return options.read_headers(f"--header-file {path}", [each for each in lines if each.strip()])
