"""Subscriptions to events: webhooks list, show, create, update, delete, test, enable, rotate and secret."""

import shlex
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Optional

import typer

from charonia.admin_schemas import WebhookData, WebhookSecret
from charonia.cli import options
from charonia.cli.arguments import InvalidArgument
from charonia.cli.changes import remove_each
from charonia.cli.commands.deliveries import show_answer
from charonia.cli.exits import FAILED
from charonia.cli.registry import command, make_group
from charonia.cli.session import Session
from charonia.cli.terminal.console import show_text
from charonia.cli.terminal.prompts import confirm
from charonia.cli.terminal.tables import (
    Cell,
    count,
    make_table,
    print_fields,
    print_list,
    show_ms,
    show_status,
    show_time,
)

CLEARABLE = ("models", "description", "headers", "rate_limit")

WebhookIds = Annotated[list[str], typer.Argument(metavar="WEBHOOK...", help="The ids of webhooks.")]
Url = Annotated[str, typer.Argument(metavar="URL", help="Where to send the events.")]
NewUrl = Annotated[options.Text, typer.Option(help="Where to send the events. Waiting ones go there, too.")]
Events = Annotated[
    options.Texts, typer.Option("--event", metavar="PATTERN", help="Which events, such as job.failed. Repeatable.")
]
Models = Annotated[options.Texts, typer.Option("--model", help="Only events of this model. Repeatable.")]
Description = Annotated[options.Text, typer.Option(help="A note of yours.")]
Headers = Annotated[
    options.Texts, typer.Option("--header", metavar="NAME:VALUE", help="A header to send along. Repeatable.")
]
RateLimit = Annotated[options.Number, typer.Option(min=0, help="Attempts a second at most; 0 for any number.")]
Ordered = Annotated[
    Optional[bool],  # noqa: UP045
    typer.Option("--ordered/--no-ordered", help="Send the events of a job one after the other."),
]
Signing = Annotated[
    Literal["hmac", "ed25519"], typer.Option(help="With a shared secret, or with a public key that verifies.")
]
Format = Annotated[Literal["charonia", "openai"], typer.Option(help="In whose words; openai is for OpenAI's clients.")]
Clear = Annotated[options.Texts, typer.Option(metavar="FIELD", help=f"Remove {', '.join(CLEARABLE)}. Repeatable.")]
GracePeriod = Annotated[float, typer.Option(min=0, help="How many seconds the old secret signs too.")]
Rotate = Annotated[bool, typer.Option("--rotate", help="Replace it.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = make_group("Webhooks: subscriptions to events. Without a command it lists them.")
    app.add_typer(group, name="webhooks", rich_help_panel="Webhooks")
    command(group, "list", opens=True)(list_webhooks)
    command(group, "show", opens=True)(show)
    command(group, "create", opens=True)(create)
    command(group, "update", opens=True)(update)
    command(group, "delete")(delete)
    command(group, "test", opens=True)(test)
    command(group, "enable", opens=True)(enable)
    command(group, "rotate")(rotate)
    command(group, "secret")(secret)


def list_webhooks(session: Session) -> None:
    """List the webhooks, oldest first."""
    table = make_table(["ID", "STATUS", "EVENTS", "URL"], flexible=["EVENTS", "URL"])
    print_list(session, session.client.webhooks.list(), table, show_row, "no webhooks; charonia webhooks create URL")
    session.open_page("/webhooks")


def show_row(webhook: WebhookData) -> Sequence[Cell]:
    return webhook.id, show_status(webhook.status), ",".join(webhook.events), webhook.url


def show(session: Session, webhook: options.WebhookId) -> None:
    """Show a webhook. Its secret is not shown."""
    found = session.client.webhooks.get(webhook)
    print_webhook(session, found)
    session.open_page(f"/webhooks/{found.id}")


def print_webhook(session: Session, webhook: WebhookData) -> None:
    """Print a webhook for people, or as JSON."""
    for each in webhook.warnings:
        session.note(f"warning: {each}")
    if session.as_json:
        session.print_json(webhook)
        return
    disabled = f"{webhook.disabled_reason}, {show_time(webhook.disabled_at)}" if webhook.disabled_at else None
    fields: list[tuple[str, Cell | None]] = [
        ("id", webhook.id),
        ("url", webhook.url),
        ("status", show_status(webhook.status)),
        ("disabled", None if disabled is None else show_text(disabled, "red")),
        ("events", ", ".join(webhook.events)),
        ("models", "all" if webhook.models is None else ", ".join(webhook.models)),
        ("description", webhook.description),
        ("headers", ", ".join(webhook.headers) if webhook.headers else None),
        ("signing", webhook.signing),
        ("format", None if webhook.format == "charonia" else webhook.format),
        ("rate limit", f"{webhook.rate_limit} attempts/s" if webhook.rate_limit else None),
        ("ordered", "yes" if webhook.ordered else None),
        ("created", show_time(webhook.created_at)),
        ("public key", webhook.public_key),
        ("secret", webhook.secret),
        ("old secret", None if webhook.old_secret_until is None else f"until {show_time(webhook.old_secret_until)}"),
    ]
    print_fields(session, fields)


def create(
    session: Session,
    url: Url,
    events: Events = None,
    model: Models = None,
    description: Description = None,
    header: Headers = None,
    signing: Signing = "hmac",
    format: Format = "charonia",  # noqa: A002 -- the name of the option
    rate_limit: RateLimit = None,
    ordered: Ordered = None,
) -> None:
    """Send events to a URL, by default all of jobs. The secret that verifies them is shown once.

    With `--format openai`: the ends of responses and batches, which OpenAI's clients verify and read.
    """
    made = session.client.webhooks.create(
        url,
        events=events,
        models=model,
        description=description,
        headers=options.read_headers("--header", header) or None,
        signing=signing,
        format=None if format == "charonia" else format,
        rate_limit=rate_limit,
        ordered=bool(ordered),
    )
    print_webhook(session, made)
    note_secret(session, made)
    session.note(f"try it: charonia webhooks test {shlex.quote(made.id)}")
    session.open_page(f"/webhooks/{made.id}")


def note_secret(session: Session, webhook: WebhookData) -> None:
    """Say that the secret is not shown again, unless it is a public key."""
    if webhook.signing == "hmac":
        session.note("keep the secret: it is shown only now")


def update(
    session: Session,
    webhook: options.WebhookId,
    url: NewUrl = None,
    events: Events = None,
    model: Models = None,
    description: Description = None,
    header: Headers = None,
    rate_limit: RateLimit = None,
    ordered: Ordered = None,
    clear: Clear = None,
) -> None:
    """Change a webhook. What you leave out stays; lists and headers are replaced."""
    given: dict[str, Any] = {
        "url": url,
        "events": events,
        "models": model,
        "description": description,
        "headers": options.read_headers("--header", header) or None,
        "rate_limit": rate_limit,
        "ordered": ordered,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    cleared = options.read_choices("--clear", clear, CLEARABLE)
    if both := [name for name in cleared if name in changes]:
        raise InvalidArgument(f"--clear {both[0]}: the field is also given; leave out one of the two")
    changes |= dict.fromkeys(cleared)
    if not changes:
        raise InvalidArgument("nothing changes; add an option, such as --url or --event")
    changed = session.client.webhooks.update(webhook, **changes)
    print_webhook(session, changed)
    session.open_page(f"/webhooks/{changed.id}")


def delete(session: Session, webhooks: WebhookIds, yes: options.Yes = False) -> None:
    """Delete webhooks. Their waiting deliveries are not sent."""
    confirm(f"Delete {count(len(webhooks), 'webhook')} with all waiting deliveries?", yes=yes)
    remove_each(session, webhooks, session.client.webhooks.delete, "deleted")


def test(session: Session, webhook: options.WebhookId) -> None:
    """Send `webhook.test` now, once, and show the answer. Exit with 1 if it was refused or did not arrive."""
    tried = session.client.webhooks.test(webhook)
    if session.as_json:
        session.print_json(tried)
    else:
        fields: list[tuple[str, Cell | None]] = [
            ("delivery", tried.delivery_id),
            ("answer", show_answer(tried)),
            ("took", show_ms(tried.duration_ms)),
            ("response", tried.response or None),
        ]
        print_fields(session, fields)
    session.open_page(f"/webhooks/{webhook}")
    if tried.error is not None:
        raise typer.Exit(FAILED)


def enable(session: Session, webhook: options.WebhookId) -> None:
    """Send events to a disabled webhook again."""
    print_webhook(session, session.client.webhooks.enable(webhook))
    session.note(f"send what it has missed: charonia recover {shlex.quote(webhook)} --since 1d")
    session.open_page(f"/webhooks/{webhook}")


def rotate(session: Session, webhook: options.WebhookId, grace_period: GracePeriod = 86_400.0) -> None:
    """Replace the secret of a webhook, and show the new one once."""
    rotated = session.client.webhooks.rotate(webhook, grace_period=grace_period)
    print_webhook(session, rotated)
    note_secret(session, rotated)


def secret(session: Session, rotate: Rotate = False, grace_period: GracePeriod = 86_400.0) -> None:
    """Print the secret of your tenant, which signs the webhooks of single jobs. In a pipe, too, it is no JSON.

    For example: `export CHARONIA_WEBHOOK_SECRET=$(charonia webhooks secret)`.
    """
    webhooks = session.client.webhooks
    found: WebhookSecret = webhooks.rotate_secret(grace_period=grace_period) if rotate else webhooks.get_secret()
    if session.wants_json:
        session.print_json(found)
        return
    session.print_text(found.secret, raw=False)
    if found.old_secret_until is not None:
        session.note(f"the old secret signs too, until {found.old_secret_until.astimezone():%Y-%m-%d %H:%M}")
