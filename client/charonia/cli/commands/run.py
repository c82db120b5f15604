"""Runs jobs: run, submit and watch."""

import shlex
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from charonia import Forbidden, Job
from charonia.cli import options
from charonia.cli.arguments import HELP, read_inputs
from charonia.cli.exits import limit_wait
from charonia.cli.registry import command
from charonia.cli.results import note_success, print_result
from charonia.cli.saved_outputs import prepare_folder, save_outputs
from charonia.cli.session import Session
from charonia.cli.watching import Watch
from charonia.errors import CharoniaError, JobError
from charonia.model_schemas import (
    ModelInfo,
)
from charonia.requests import DEFAULT_WAIT

InputArguments = Annotated[options.Texts, typer.Argument(metavar="NAME=VALUE", help=HELP)]
TimeoutOption = Annotated[float, typer.Option(min=0.001, help="How many seconds to wait; the job then goes on.")]
OutputOption = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        "--output", "-o", metavar="DIR", file_okay=False, help="Also write each output to a file in this folder."
    ),
]
TextOption = Annotated[bool, typer.Option("--text", help="Print only the texts of the outputs, a line each.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, opens=True, rich_help_panel="Jobs")(run)
    command(app, opens=True, rich_help_panel="Jobs")(submit)
    command(app, opens=True, rich_help_panel="Jobs")(watch)


def run(
    session: Session,
    model: options.Model,
    inputs: InputArguments = None,
    priority: options.PriorityOption = None,
    webhook: options.WebhookOption = None,
    metadata: options.MetadataOption = None,
    fields: options.SetOption = None,
    max_age: options.MaxAgeOption = None,
    idempotency_key: options.KeyOption = None,
    timeout: TimeoutOption = DEFAULT_WAIT,
    output: OutputOption = None,
    text: TextOption = False,
) -> None:
    """Submit a job, wait for its end, and print its outputs.

    For example: `charonia run ocr image=@scan.png`. Ctrl-C leaves the job running.
    """
    given = options.make_submit_fields(priority, webhook, metadata, fields, max_age)
    prepare_folder(output)
    follow(session, send(session, model, inputs, given, idempotency_key), timeout, output, text)


def submit(
    session: Session,
    model: options.Model,
    inputs: InputArguments = None,
    priority: options.PriorityOption = None,
    webhook: options.WebhookOption = None,
    metadata: options.MetadataOption = None,
    fields: options.SetOption = None,
    max_age: options.MaxAgeOption = None,
    idempotency_key: options.KeyOption = None,
) -> None:
    """Submit a job, and print its id at once."""
    given = options.make_submit_fields(priority, webhook, metadata, fields, max_age)
    job = send(session, model, inputs, given, idempotency_key)
    if session.as_json:
        session.print_json(job.data)
    else:
        session.out.print(job.id)
        session.note(f"{job.status}; watch it: charonia watch {shlex.quote(job.id)}")
    session.open_page(f"/jobs/{job.id}")


def watch(
    session: Session,
    job: options.JobId,
    timeout: TimeoutOption = DEFAULT_WAIT,
    output: OutputOption = None,
    text: TextOption = False,
) -> None:
    """Follow a job until it ends, and print its outputs."""
    prepare_folder(output)
    follow(session, session.client.jobs.get(job), timeout, output, text)


def send(
    session: Session, model: str, inputs: list[str] | None, given: dict[str, Any], idempotency_key: str | None
) -> Job:
    """Submit a job with inputs as arguments."""
    key = options.check_key(idempotency_key)
    values = read_inputs(inputs or (), find_model(session, model))
    return session.client.submit(model, values, idempotency_key=key, **given)


def find_model(session: Session, name: str) -> ModelInfo | None:
    """Return a model, or None if the key may submit, but not read."""
    try:
        return session.client.models.get(name)
    except Forbidden:
        return None


def follow(session: Session, job: Job, timeout: float, output: Path | None, as_text: bool) -> None:
    """Show a job until it ends, then its outputs. Raise JobError if it has none."""
    session.open_page(f"/jobs/{job.id}")
    watching = Watch(session, job, as_text=as_text)
    try:
        with limit_wait(timeout):
            watching.run(timeout)
            result = job.refresh().result(timeout, download=as_text)
    except KeyboardInterrupt:
        session.note(f"\n{describe_rest(job)}")
        raise
    except JobError:
        raise
    except CharoniaError:
        session.note(describe_rest(job))
        raise
    if output is not None:
        try:
            save_outputs(session, result, output)
        except (OSError, CharoniaError):
            session.note(
                f"{job.id} succeeded. Save its outputs again: charonia watch {shlex.quote(job.id)} --output DIR"
            )
            raise
    if watching.has_printed and watching.rest is not None and as_text:
        watching.print_rest(result)
    elif not watching.has_printed or watching.rest is not None:
        if watching.has_printed:
            session.out.print()
        print_result(session, result, as_text=as_text)
    elif not as_text:
        note_success(session, result)


def describe_rest(job: Job) -> str:
    """Return how to go on with a job that nobody waits for now."""
    quoted = shlex.quote(job.id)
    if job.data.has_ended:
        return f"{job.id} {job.status}. Print its outputs again: charonia watch {quoted}"
    return f"{job.id} goes on. Watch it: charonia watch {quoted}. Cancel it: charonia cancel {quoted}"
