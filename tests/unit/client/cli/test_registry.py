"""A group of commands lists if no command is named."""

import pytest
import typer.main
from charonia.cli.registry import command, make_group
from charonia.cli.session import Session


def list_things(_session: Session) -> None:
    """List."""


def make_things() -> typer.Typer:
    group = make_group("Things.")
    command(group, "list")(list_things)
    command(group, "show")(list_things)
    return group


@pytest.mark.parametrize(("arguments", "name"), [([], "list"), (["--json"], "list"), (["show"], "show")], ids=str)
def test_a_group_lists_unless_a_command_is_named(arguments: list[str], name: str) -> None:
    context = typer.main.get_command(make_things()).make_context("things", arguments)
    assert context._protected_args == [name]


def test_the_shell_completes_the_names_of_a_group() -> None:
    context = typer.main.get_command(make_things()).make_context("things", [], resilient_parsing=True)
    assert context._protected_args == []
