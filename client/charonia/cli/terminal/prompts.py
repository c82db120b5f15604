"""Asks questions on a terminal. Ctrl-C ends the command as everywhere else; no answer changes nothing."""

import sys
from collections.abc import Callable
from typing import TypeVar

import typer

from charonia.cli.arguments import InvalidArgument

Answer = TypeVar("Answer")


def ask(prompt: Callable[[], Answer]) -> Answer:
    """Return the answer. Raise KeyboardInterrupt after Ctrl-C, and InvalidArgument if there is none."""
    try:
        return prompt()
    except typer.Abort as end:
        typer.echo(err=True)
        if isinstance(end.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise InvalidArgument("there was no answer; nothing is changed") from None


def ask_text(question: str, *, default: str | None = None, hidden: bool = False) -> str:
    """Return the text that the user types."""
    return str(ask(lambda: typer.prompt(question, default=default, hide_input=hidden, err=True)))


def confirm(question: str, *, yes: bool) -> None:
    """Ask before a change that cannot be undone. Raise InvalidArgument if nobody is there, or the answer is no."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidArgument(f"{question} There is nobody to ask; add --yes")
    if not ask(lambda: typer.confirm(question, err=True)):
        raise InvalidArgument("the answer was no; nothing is changed")
