"""The reference of the command line `charonia`, from the commands that are registered."""

import sys
from collections.abc import Iterator
from typing import Any

from deploy.local.settings import ROOT

KINDS = {"float": "NUMBER", "float range": "NUMBER", "int": "NUMBER", "int range": "NUMBER", "choice": "NAME"}
COMMON = ("--profile", "--json")  # options of every command: the page describes them once


def write_commands() -> str:
    """Return a section for each command, with its arguments and options."""
    client = str(ROOT / "client")
    if client not in sys.path:
        sys.path.insert(0, client)
    import typer  # here, so that the other pages need neither
    from charonia.cli.app import app

    return "\n\n".join(block for each in list_commands(typer.main.get_command(app)) for block in write_command(*each))


def list_commands(group: Any, parent: str = "charonia") -> Iterator[tuple[str, Any]]:
    """Yield each command with its full name; those of groups follow their group."""
    for name, found in group.commands.items():
        if found.hidden:
            continue
        yield f"{parent} {name}", found
        if hasattr(found, "commands"):
            yield from list_commands(found, f"{parent} {name}")


def write_command(name: str, found: Any) -> Iterator[str]:
    yield f"### {name}"
    if not hasattr(found, "commands"):
        yield f"```\n{' '.join([name, *write_usage(found.params)])}\n```"
    yield (found.help or "").strip()
    rows = [f"| `{write_name(each)}` | {write_help(each)} |" for each in found.params if is_own(each)]
    if rows:
        yield "\n".join(["| argument or option | meaning |", "| --- | --- |", *rows])


def is_own(found: Any) -> bool:
    return not getattr(found, "hidden", False) and "--help" not in found.opts and found.opts[0] not in COMMON


def write_usage(params: list[Any]) -> Iterator[str]:
    """Yield what a call needs, then `[OPTIONS]` if there are any."""
    for each in params:
        if each.param_type_name == "argument":
            many = "..." if each.nargs == -1 and not str(each.metavar).endswith("...") else ""
            shown = write_name(each) + many
            yield shown if each.required or shown.startswith("[") else f"[{shown}]"
        elif each.required:
            yield write_name(each).replace(f", {each.opts[-1]}", "")
    yield "[OPTIONS]"


def write_name(found: Any) -> str:
    """Return an argument or an option with its value, as a user writes it."""
    metavar = found.metavar or KINDS.get(found.type.name, found.type.name.upper())
    if found.param_type_name == "argument":
        return str(found.metavar or found.name.upper())
    names = ", ".join([*found.opts, *found.secondary_opts])
    return names if found.is_flag else f"{names} {metavar}"


def write_help(found: Any) -> str:
    """Return the help of an argument or option, with its choices and its default."""
    parts = [(found.help or "").strip()]
    if choices := getattr(found.type, "choices", None):
        parts.append("One of " + ", ".join(f"`{each}`" for each in choices) + ".")
    if found.default not in (None, False, ()) and not callable(found.default):
        parts.append(f"By default `{found.default}`.")
    return " ".join(parts).replace("|", "\\|").replace("\n", " ")
