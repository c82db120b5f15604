"""Registers commands, with the options that every command has."""

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Optional, get_type_hints

import typer
from typer.core import TyperGroup
from typer.models import ArgumentInfo

from charonia.cli.arguments import InvalidArgument
from charonia.cli.session import Session

Profile = Annotated[
    Optional[str],  # noqa: UP045 -- older versions of typer know no other form
    typer.Option(
        metavar="NAME",
        rich_help_panel="Every command",
        help="The profile of `charonia login` to use, before CHARONIA_URL and CHARONIA_KEY.",
    ),
]
AsJson = Annotated[
    Optional[bool],  # noqa: UP045
    typer.Option(
        "--json/--no-json",
        rich_help_panel="Every command",
        show_default="--json in a pipe",
        help="Print one JSON object a line, or text for people.",
    ),
]
Opens = Annotated[
    Optional[bool],  # noqa: UP045
    typer.Option("--open", help="Also open this in the console. Without a browser, print the address."),
]
COMMON = {"profile": Profile, "as_json": AsJson}
Function = Callable[..., None]


class Group(TyperGroup):
    """A group of commands. It lists if no command is named: `charonia keys --json` is `charonia keys list --json`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        names_none = not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
        if names_none and "list" in self.commands and not ctx.resilient_parsing:  # the shell completes the names
            args = ["list", *args]
        return super().parse_args(ctx, args)


def make_group(help_text: str) -> typer.Typer:
    """Return a group of commands."""
    return typer.Typer(cls=Group, help=help_text, no_args_is_help=True, rich_markup_mode="markdown")


def command(
    app: typer.Typer, name: str | None = None, *, opens: bool = False, **settings: Any
) -> Callable[[Function], Function]:
    """Make a function a command. Its first parameter is the Session, and its docstring is the help.

    With `opens` the command has `--open`, and the function calls `session.open_page`.
    """
    common: dict[str, Any] = COMMON | ({"opens": Opens} if opens else {})

    def decorate(function: Function) -> Function:
        hints = get_type_hints(function, include_extras=True)
        _, *own = inspect.signature(function).parameters.values()
        arguments = [each.name for each in own if is_argument(hints[each.name])]

        def run(**given: Any) -> None:
            check_filled({name: value for name, value in given.items() if name in arguments})
            with Session(given.pop("profile"), given.pop("as_json"), opens=bool(given.pop("opens", None))) as session:
                function(session, **given)

        run.__name__, run.__doc__, run.__module__ = function.__name__, function.__doc__, function.__module__
        annotations = {each.name: hints[each.name] for each in own} | common
        parameters = [each.replace(annotation=hints[each.name], kind=each.KEYWORD_ONLY) for each in own]
        parameters += [
            inspect.Parameter(each, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
            for each, annotation in common.items()
        ]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = annotations
        app.command(name, **settings)(run)
        return function

    return decorate


def is_argument(hint: Any) -> bool:
    """Return whether a parameter is an argument, not an option."""
    return any(isinstance(each, ArgumentInfo) for each in getattr(hint, "__metadata__", ()))


def check_filled(arguments: Mapping[str, Any]) -> None:
    """Raise InvalidArgument for an empty id or name: its URL would be that of all objects."""
    for name, value in arguments.items():
        if value == "" or (isinstance(value, list) and "" in value):
            raise InvalidArgument(f"{name}: an empty text was given; check the variable or command that made it")
