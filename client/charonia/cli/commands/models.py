"""Looks at models."""

import shlex
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Annotated
from urllib.parse import quote

import typer

from charonia.cli import options
from charonia.cli.completion import complete_models
from charonia.cli.registry import command
from charonia.cli.session import Session
from charonia.cli.terminal.console import show_text
from charonia.cli.terminal.tables import (
    Cell,
    make_table,
    print_fields,
    print_list,
    show_age,
    show_bytes,
    show_ms,
    show_status,
)
from charonia.model_schemas import (
    ModelInfo,
    Percentiles,
    Residency,
    TensorInfo,
)

Name = Annotated[options.Text, typer.Argument(help="The name of a model.", autocompletion=complete_models)]


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "models", opens=True, rich_help_panel="Models")(show_models)


def show_models(session: Session, name: Name = None) -> None:
    """List the models, or show one with its inputs and outputs."""
    if name is None:
        columns = ["NAME", "STATUS", "INPUTS", "OUTPUTS", "WAITING", "RUNNING"]
        table = make_table(columns, right=columns[4:], flexible=["INPUTS", "OUTPUTS"])
        print_list(session, session.client.models.list(), table, show_row, "no models; Triton serves none to this key")
        session.open_page("/models")
        return
    model = session.client.models.get(name)
    if session.as_json:
        session.print_json(model)
    else:
        print_model(session, model)
    session.open_page(f"/models/{quote(model.name, safe='')}")


def find_status(model: ModelInfo) -> str:
    """Return the state of a model in a word."""
    if model.paused:
        return "paused"
    if model.ready or model.residency is None or model.residency.state == "resident":
        return "ready" if model.ready else "away"
    return model.residency.state


def show_row(model: ModelInfo) -> Sequence[Cell]:
    return (
        model.name,
        show_status(find_status(model)),
        ", ".join(each.name for each in model.inputs),
        ", ".join(each.name for each in model.outputs),
        "" if model.queue is None else str(sum(model.queue.values())),
        "" if model.running is None else str(model.running),
    )


def print_model(session: Session, model: ModelInfo) -> None:
    """Print a model for people, with a command that runs it."""
    waiting = ", ".join(f"{count} {priority}" for priority, count in (model.queue or {}).items() if count)
    fields: list[tuple[str, Cell | None]] = [
        ("model", model.name + (", streaming" if model.streaming else "")),
        ("status", show_status(find_status(model))),
        ("reason", None if model.reason is None else show_text(model.reason, "red")),
        ("next load", None if model.residency is None else show_place(model.residency)),
        ("memory", None if model.residency is None else show_memory(model.residency)),
        ("versions", ", ".join(each.version for each in model.versions)),
        ("batch", f"up to {model.max_batch_size}" if model.max_batch_size else None),
        ("waiting", None if model.queue is None else waiting or "0"),
        ("running", None if model.slots is None else f"{model.running} of {model.slots} slots"),
    ]
    fields += [("input" if number == 0 else "", show_tensor(each)) for number, each in enumerate(model.inputs)]
    fields += [("output" if number == 0 else "", show_tensor(each)) for number, each in enumerate(model.outputs)]
    if model.recent is not None and model.recent.jobs:
        fields.append(("waited", show_percentiles(model.recent.queue_ms)))
        fields.append(("inference", show_percentiles(model.recent.inference_ms)))
    print_fields(session, fields)
    arguments = " ".join(f"{shlex.quote(each.name)}=…" for each in model.inputs if not each.optional)
    session.note(f"run it: charonia run {shlex.quote(model.name)} {arguments}")


def show_place(residency: Residency) -> str | None:
    """Return which load gets a model into memory, when and why. None: nobody waits for one."""
    if residency.place is None:
        return None
    at = residency.expected_at
    expected = f", ready {show_age(at)}" if at is not None and at > datetime.now(timezone.utc) else ""
    return f"number {residency.place}{expected}" + (f": {residency.why}" if residency.why else "")


def show_memory(residency: Residency) -> str | None:
    """Return what a model takes of Triton while it is loaded, and how long a load takes. None: neither is known."""
    size = None if residency.memory is None else show_bytes(residency.memory)
    load = None if residency.load_seconds is None else f"a load takes {show_ms(1000 * residency.load_seconds)}"
    return ", ".join(part for part in (size, load) if part) or None


def show_tensor(tensor: TensorInfo) -> str:
    shape = "×".join("any" if size == -1 else str(size) for size in tensor.shape)
    notes = [text for text, shown in (("optional", tensor.optional), ("a file", tensor.reference)) if shown]
    return f"{tensor.name} {tensor.datatype} {shape}" + (f" ({', '.join(notes)})" if notes else "")


def show_percentiles(found: Percentiles) -> str:
    return f"p50 {show_ms(found.p50)}, p95 {show_ms(found.p95)} of your latest jobs"
