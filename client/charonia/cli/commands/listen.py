"""Listens to all events: prints them, or forwards them to a local server."""

import os
import shlex
from typing import Annotated

import typer

from charonia.cli import options
from charonia.cli.registry import command
from charonia.cli.session import Session
from charonia.webhook_signatures import SECRET

EventOption = Annotated[
    options.Texts,
    typer.Option(
        "--event", metavar="TYPE", help="Only events of this type, or of a pattern such as job.*. Repeatable."
    ),
]
AfterOption = Annotated[
    options.Text,
    typer.Option(
        metavar="POSITION",
        help="Go on after this event, as Ctrl-C says it, or begin with the `oldest` that is kept. [default: now]",
    ),
]
SecretOption = Annotated[
    options.Text,
    typer.Option(
        metavar="TEXT",
        envvar=SECRET,
        show_envvar=False,
        help=f"Sign with this whsec_…, or with that in {SECRET}. [default: your tenant's, else a new one]",
    ),
]
GiveUpOption = Annotated[
    float, typer.Option(min=0, metavar="SECONDS", help="How long to try an event that the server does not accept.")
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, rich_help_panel="Webhooks")(listen)


def listen(
    session: Session,
    forward: Annotated[options.Text, typer.Option(metavar="URL", help="Where to send each event as a webhook.")] = None,
    events: EventOption = None,
    after: AfterOption = None,
    secret: SecretOption = None,
    give_up_after: GiveUpOption = 3600,
) -> None:
    """Print all events as they come, or forward them to a server on this machine.

    For example: `charonia listen --forward http://localhost:3000/hook`. It needs no public address. Each event is sent
    until the server answers 2xx within 15 seconds. The next event of the same job is sent after that.

    Events are signed with your tenant's secret, as the webhooks of single jobs are. A key without the scope `admin`
    cannot read it: a new secret then signs, and is printed.
    """
    import asyncio  # here, because few commands need it

    from charonia.cli.listen.listener import Listener
    from charonia.cli.listen.local_receiver import check_secret, check_target

    listener = Listener(session, events, after)
    if forward is None:
        run = listener.print_all()
    else:
        target, chosen = check_target(forward), None if secret is None else check_secret(secret)
        run = listener.forward_all(target, chosen, give_up_after)
    try:
        asyncio.run(run)
    except KeyboardInterrupt:
        session.note("")  # after the ^C of the terminal
        raise
    finally:
        arguments = ["charonia", "listen", *(["--forward", forward] if forward else [])]
        arguments += [part for each in events or () for part in ("--event", each)]
        given = forward is not None and secret is not None and secret != os.environ.get(SECRET)
        listener.note_end(shlex.join(arguments), needs_secret=given)
