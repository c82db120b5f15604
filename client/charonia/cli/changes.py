"""Changes several objects one by one."""

from collections.abc import Callable, Sequence
from typing import Any

import typer
from rich.console import RenderableType

from charonia.cli.exits import find_exit_code
from charonia.cli.session import Session
from charonia.errors import APIError


def for_each(
    session: Session, ids: Sequence[str], change: Callable[[str], Any], show: Callable[[Any], RenderableType]
) -> None:
    """Change objects one by one, and print each. If one is refused, go on with the others, and exit with its code."""
    code = 0
    for each in ids:
        try:
            changed = change(each)
        except APIError as error:
            session.note(f"{each}: {error}")
            code = find_exit_code(error)
            continue
        if session.as_json:
            session.print_json(changed)
        else:
            session.out.print(each, show(changed))
    if code:
        raise typer.Exit(code)


def remove_each(session: Session, ids: Sequence[str], remove: Callable[[str], None], done: str) -> None:
    """Remove objects one by one, and print that each is `done`, such as deleted. Goes on as `for_each` does."""

    def remove_one(each: str) -> dict[str, Any]:
        remove(each)
        return {"id": each, done: True}

    for_each(session, ids, remove_one, lambda _: done)
