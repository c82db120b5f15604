"""The tenant's API keys: keys list, show, create and revoke."""

from collections.abc import Sequence
from typing import Annotated, get_args

import typer

from charonia.admin_schemas import KeyData, Scope
from charonia.cli import options
from charonia.cli.changes import remove_each
from charonia.cli.registry import command, make_group
from charonia.cli.session import Session
from charonia.cli.terminal.prompts import confirm
from charonia.cli.terminal.tables import (
    count,
    make_table,
    print_fields,
    print_list,
    show_age,
    show_expiry,
    show_time,
)

SCOPES: tuple[Scope, ...] = get_args(Scope)

KeyId = Annotated[str, typer.Argument(metavar="KEY", help="The id of a key.")]
KeyIds = Annotated[list[str], typer.Argument(metavar="KEY...", help="The ids of keys.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = make_group("The API keys of your tenant. Without a command it lists them. Your key needs the scope admin.")
    app.add_typer(group, name="keys", rich_help_panel="Account")
    command(group, "list", opens=True)(list_keys)
    command(group, "show")(show_key)
    command(group, "create")(create_key)
    command(group, "revoke")(revoke_keys)


def list_keys(session: Session) -> None:
    """List the keys, oldest first. The keys themselves are not shown."""
    columns = ["ID", "NAME", "SCOPES", "MODELS", "EXPIRES", "USED"]
    table = make_table(columns, right=["EXPIRES", "USED"], flexible=["NAME", "MODELS"])
    print_list(session, session.client.keys.list(), table, show_row, "no keys")
    session.open_page("/keys")


def show_row(key: KeyData) -> Sequence[str]:
    expiry, used = show_expiry(key.expires_at), show_age(key.last_used_at)
    return key.id, key.name, ",".join(key.scopes), show_models(key), expiry, used


def show_models(key: KeyData) -> str:
    return "all" if key.models is None else ", ".join(key.models) or "none"


def show_key(session: Session, key: KeyId) -> None:
    """Show a key with its limits. The key itself is not shown."""
    print_key(session, session.client.keys.get(key))


def print_key(session: Session, key: KeyData) -> None:
    """Print a key for people, or as JSON."""
    if session.as_json:
        session.print_json(key)
        return
    expiry = show_expiry(key.expires_at)
    print_fields(
        session,
        [
            ("id", key.id),
            ("name", key.name),
            ("scopes", ", ".join(key.scopes)),
            ("models", show_models(key)),
            ("rate limit", show_rate(key.rate_limit)),
            ("created", show_time(key.created_at)),
            ("expires", "never" if key.expires_at is None else f"{show_time(key.expires_at)} ({expiry})"),
            ("last used", "never" if key.last_used_at is None else show_time(key.last_used_at)),
            ("key", key.key),
        ],
    )


def show_rate(limit: int | None) -> str:
    """Return a rate limit for people."""
    if limit is None:
        return "none of its own"
    return f"{limit} requests/s" if limit else "none"


def create_key(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name for people.")],
    scope: Annotated[
        list[str], typer.Option("--scope", metavar="SCOPE", help=f"What it may do: {', '.join(SCOPES)}. Repeatable.")
    ],
    model: Annotated[
        options.Texts, typer.Option(help="Only models of this name or pattern, such as ocr*. Repeatable.")
    ] = None,
    rate_limit: Annotated[options.Number, typer.Option(min=0, help="Requests a second; 0 for any number.")] = None,
    expires_at: Annotated[options.Time, typer.Option(metavar="TIME", help="When it ends: 12h, 30d or a time.")] = None,
) -> None:
    """Create a key, and show it once. What you leave out is as in your own key."""
    ends = options.read_time("--expires-at", expires_at, ahead=True)
    scopes = options.read_choices("--scope", scope, SCOPES)
    made = session.client.keys.create(name, scopes, models=model, rate_limit=rate_limit, expires_at=ends)
    print_key(session, made)
    session.note("keep the key: it is shown only now")


def revoke_keys(session: Session, keys: KeyIds, yes: options.Yes = False) -> None:
    """Revoke keys for good. Their streams and waits end."""
    confirm(f"Revoke {count(len(keys), 'key')} for good?", yes=yes)
    remove_each(session, keys, session.client.keys.revoke, "revoked")
