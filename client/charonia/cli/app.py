"""The application: all commands."""

from typing import Annotated

import typer

from charonia.cli.commands import (
    account,
    batch,
    chat,
    dead_letters,
    deliveries,
    files,
    jobs,
    keys,
    listen,
    login,
    models,
    pipelines,
    run,
    top,
    verify,
    webhooks,
)
from charonia.version import VERSION

HELP = """Run models on Charonia: asynchronous inference for NVIDIA Triton.

`charonia login` stores the URL and the key of a gateway. CHARONIA_URL and CHARONIA_KEY work without it.

Exit codes: 0 ended well, 1 the job failed, 2 wrong usage, 3 the gateway cannot be reached, 4 it refused, 5 a local
file failed, 6 the --timeout is over, 130 Ctrl-C.
"""

app = typer.Typer(
    name="charonia", help=HELP, no_args_is_help=True, rich_markup_mode="markdown", pretty_exceptions_enable=False
)


def print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"charonia {VERSION}")
        raise typer.Exit


@app.callback()
def configure(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Take the options before the command."""


COMMANDS = (
    login,
    run,
    batch,
    chat,
    jobs,
    files,
    dead_letters,
    models,
    pipelines,
    top,
    listen,
    webhooks,
    deliveries,
    verify,
    keys,
    account,
)
for each in COMMANDS:
    each.register(app)
