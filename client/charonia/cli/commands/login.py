"""Stores the URL and the key of a gateway in a profile: login."""

import os
import shlex
import sys
from typing import Annotated

import typer

from charonia import Charonia, Forbidden, InvalidResponse, NotFound, Unauthorized
from charonia.cli import options
from charonia.cli.arguments import InvalidArgument
from charonia.cli.exits import REFUSED
from charonia.cli.registry import command
from charonia.cli.session import CALL_SECONDS, Session
from charonia.cli.terminal.prompts import ask_text
from charonia.settings import KEY, PROFILE, URL, Profile, find_config, find_connection, load_profiles, save_profile

DEFAULT_NAME = "default"
MOST_BYTES = 10_000  # that are read as a key


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, rich_help_panel="Account")(login)


def login(
    session: Session,
    url: Annotated[options.Text, typer.Option(help="The URL of the gateway. Without it, the command asks.")] = None,
    default: Annotated[bool, typer.Option("--default", help="Use this profile if no other is named.")] = False,
) -> None:
    """Check the URL and the key of a gateway, and store them.

    The command asks for the key. In a pipe, it reads the key from standard input:
    `charonia login --url https://charonia.example.com < key.txt`. `--profile` names the profile to write.
    """
    name = session.profile or os.environ.get(PROFILE) or DEFAULT_NAME
    known = load_profiles().profiles.get(name)
    asked_url = url or ask_url(known)
    connection = find_connection(asked_url, read_key(asked_url))
    check(session, Profile(connection.url, connection.key))
    saved = save_profile(name, Profile(connection.url, connection.key), is_default=default)
    if session.as_json:
        found = {"profile": name, "url": connection.url, "default": saved.default == name, "file": str(find_config())}
        session.print_json(found)
    explain(session, name, is_default=saved.default == name)


def ask_url(known: Profile | None) -> str:
    """Return the URL that the user types. Raise InvalidArgument if there is nobody to ask."""
    suggested = os.environ.get(URL) or (known.url if known else None)
    if not sys.stdin.isatty():
        if suggested:
            return suggested
        raise InvalidArgument(f"which gateway? There is nobody to ask; add --url, or set {URL}")
    return ask_text("URL of the gateway", default=suggested)


def read_key(url: str) -> str:
    """Return the key: typed without being shown, or from standard input. Raise InvalidArgument if there is none."""
    if sys.stdin.isatty():
        return ask_text(f"API key for {url} (hidden)", hidden=True).strip()
    key = sys.stdin.buffer.read(MOST_BYTES).decode(errors="replace").strip()
    if not key:
        raise InvalidArgument("there is no key on standard input; write: charonia login --url URL < FILE")
    return key


def check(session: Session, profile: Profile) -> None:
    """Ask the gateway whether it knows the key. Exit if it does not. Raise CharoniaError if there is no gateway."""
    with Charonia(profile.url, profile.key, timeout=CALL_SECONDS) as client:
        try:
            next(client.models.list(), None)
        except Forbidden:  # a key without the scope `read`
            return
        except NotFound:
            raise InvalidResponse(
                f"{profile.url} is no gateway of Charonia; leave out the path after the port"
            ) from None
        except Unauthorized as error:
            session.note(f"charonia: {profile.url} refuses the key: {error.detail}. Nothing is stored")
            raise typer.Exit(REFUSED) from None


def explain(session: Session, name: str, *, is_default: bool) -> None:
    """Say what is stored, and what to run next."""
    quoted = shlex.quote(name)
    option = "" if is_default else f" --profile {quoted}"
    session.note(f"stored the profile {name!r} in {find_config()}")
    if hidden := [each for each in (URL, KEY) if os.environ.get(each)]:
        session.note(f"{' and '.join(hidden)} in this shell come first; unset them, or use --profile {quoted}")
    session.note(f"try: charonia models{option}")
