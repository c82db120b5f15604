"""Pipelines, which are several models in a row: pipelines list, show, put, check and delete."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.table import Table

from charonia.cli import options
from charonia.cli.changes import remove_each
from charonia.cli.commands.models import show_tensor
from charonia.cli.completion import complete_pipelines
from charonia.cli.definition_files import read_definition
from charonia.cli.registry import command, make_group
from charonia.cli.session import Session
from charonia.cli.terminal.console import show_text_line
from charonia.cli.terminal.prompts import confirm
from charonia.cli.terminal.tables import (
    Cell,
    add_row,
    count,
    make_table,
    print_fields,
    print_list,
    show_age,
    show_time,
)
from charonia.pipeline_schemas import CheckedPipeline, PipelineData

Name = Annotated[
    str, typer.Argument(metavar="PIPELINE", help="The name of a pipeline.", autocompletion=complete_pipelines)
]
Names = Annotated[
    list[str],
    typer.Argument(metavar="PIPELINE...", help="The names of pipelines.", autocompletion=complete_pipelines),
]
File = Annotated[
    str, typer.Argument(metavar="FILE", help="The definition as JSON. - reads standard input.", show_default=False)
]
Version = Annotated[options.Text, typer.Option(metavar="NUMBER", help="This version, in place of the newest one.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = make_group("Several models in a row, which run as one. Without a command it lists them.")
    app.add_typer(group, name="pipelines", rich_help_panel="Models")
    command(group, "list", opens=True)(list_pipelines)
    command(group, "show", opens=True)(show_pipeline)
    command(group, "put", opens=True)(put_pipeline)
    command(group, "check")(check_pipeline)
    command(group, "delete")(delete_pipelines)


def list_pipelines(session: Session) -> None:
    """List the pipelines by name."""
    table = make_table(["NAME", "VERSION", "STEPS", "AGE"], right=["VERSION", "AGE"], flexible=["STEPS"])
    print_list(session, session.client.pipelines.list(), table, show_row, "no pipelines")
    session.open_page("/pipelines")


def show_row(pipeline: PipelineData) -> Sequence[Cell]:
    steps = ", ".join(pipeline.definition.get("steps", {}))
    return pipeline.name, pipeline.version, steps, show_age(pipeline.created_at)


def show_pipeline(session: Session, name: Name, version: Version = None) -> None:
    """Show a pipeline with its steps. As JSON, it has the whole definition."""
    print_pipeline(session, session.client.pipelines.get(name, version=version))
    open_pipeline(session, name)


def open_pipeline(session: Session, name: str) -> None:
    session.open_page(f"/pipelines/{quote(name, safe='')}")


def print_pipeline(session: Session, pipeline: PipelineData) -> None:
    """Print a pipeline for people, or as JSON."""
    if session.as_json:
        session.print_json(pipeline)
        return
    definition = pipeline.definition
    fields: list[tuple[str, Cell | Table | None]] = [
        ("pipeline", pipeline.name),
        ("version", pipeline.version),
        ("versions", ", ".join(pipeline.versions) if pipeline.versions else None),
        ("stored", show_time(pipeline.created_at)),
        ("inputs", ", ".join(definition.get("inputs", {}))),
        ("outputs", join_references(definition.get("outputs", {}))),
    ]
    print_fields(session, fields)
    table = make_table(["STEP", "MODEL", "INPUTS", "FOR EACH"], flexible=["STEP", "MODEL", "INPUTS"])
    for name, step in definition.get("steps", {}).items():
        inputs = join_references(step.get("inputs", {}))
        add_row(table, (name, step.get("model", ""), inputs, step.get("for_each") or ""))
    session.out.print()
    session.out.print(table)


def join_references(references: Mapping[str, Any]) -> str:
    """Return names with what they refer to."""
    return ", ".join(f"{name}={text}" for name, text in references.items())


def put_pipeline(session: Session, name: Name, file: File) -> None:
    """Store a version of a pipeline. It stays as it is if its newest version has this definition.

    For example: `charonia pipelines put read-and-count pipeline.json`.
    """
    stored = session.client.pipelines.put(name, read_definition(file))
    print_pipeline(session, stored)
    inputs = " ".join(
        f"{shlex.quote(each)}=…"
        for each, declared in stored.definition.get("inputs", {}).items()
        if not declared.get("optional")
    )
    session.note(f"run it: charonia run {shlex.quote(name)} {inputs}")
    open_pipeline(session, name)


def check_pipeline(session: Session, name: Name, file: File) -> None:
    """Check a definition as `put` does, without storing it. Show what the pipeline would take and make."""
    found = session.client.pipelines.check(name, read_definition(file))
    if session.as_json:
        session.print_json(found)
    else:
        print_fields(session, list_tensors(found))


def list_tensors(found: CheckedPipeline) -> list[tuple[str, Cell]]:
    """Return the inputs and outputs, with a name before the first of each."""
    return [
        (kind if number == 0 else "", show_text_line(show_tensor(each)))
        for kind, tensors in (("input", found.input_tensors), ("output", found.output_tensors))
        for number, each in enumerate(tensors)
    ]


def delete_pipelines(session: Session, names: Names, yes: options.Yes = False) -> None:
    """Delete pipelines with all their versions. Their runs go on."""
    confirm(f"Delete {count(len(names), 'pipeline')} with all versions?", yes=yes)
    remove_each(session, names, session.client.pipelines.delete, "deleted")
