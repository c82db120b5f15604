"""Runs a model on each line of a file: batch."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from charonia import Charonia
from charonia.cli import options
from charonia.cli.arguments import InvalidArgument
from charonia.cli.batch.bar import Bar
from charonia.cli.batch.chunks import ItemFile
from charonia.cli.batch.files import close_files, open_files
from charonia.cli.batch.results import ResultFile
from charonia.cli.batch.run import Run, Task
from charonia.cli.exits import FAILED
from charonia.cli.registry import command
from charonia.cli.session import Session
from charonia.cli.terminal.tables import show_ms, show_seconds
from charonia.errors import CharoniaError, InvalidRequest, NotFound, ResumeError
from charonia.journal_records import Beginning
from charonia.requests import make_fields

CALL_SECONDS = 60.0  # of a call with its retries; then the run tells what it waits for
GO_ON = "The submitted jobs go on. To get their results and submit the other items, run the same command again."
LOST = "Results that the run waits for are not there. If the key is right, begin anew with --restart."

Items = Annotated[
    Path,
    typer.Argument(
        metavar="ITEMS", exists=True, dir_okay=False, allow_dash=True, help="A file with an item in each line, as JSON."
    ),
]
ResultsOption = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="FILE", dir_okay=False, help="The file of results, which the command creates."
    ),
]
ConcurrencyOption = Annotated[int, typer.Option(min=1, max=10_000, help="How many jobs are submitted at a time.")]
OrderedOption = Annotated[bool, typer.Option("--ordered", help="Write the results in the order of the items.")]
RestartOption = Annotated[
    bool, typer.Option("--restart", help="Begin anew: delete the results, and what is known of an earlier run.")
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, opens=True, rich_help_panel="Jobs")(batch)


def batch(
    session: Session,
    model: options.Model,
    items: Items,
    output: ResultsOption,
    concurrency: ConcurrencyOption = 1000,
    priority: options.PriorityOption = None,
    webhook: options.WebhookOption = None,
    metadata: options.MetadataOption = None,
    fields: options.SetOption = None,
    max_age: options.MaxAgeOption = None,
    ordered: OrderedOption = False,
    restart: RestartOption = False,
) -> None:
    """Run the model on each line of a file, and write a line for each result as it comes.

    For example: `charonia batch ocr items.jsonl -o results.jsonl`. An item is an object of inputs, such as
    `{"image": "@scan.png"}`, or the value of the model's only input. Text that begins with `@` names a file, relative
    to the folder of ITEMS; text that begins with `@@` stands for itself, without the first `@`.
    `{"inputs": {…}, "custom_id": "a"}` names the item.

    The same command goes on after Ctrl-C, a crash or a reboot. No item runs twice, and no result is lost. Until the
    end, `FILE.progress` holds what was submitted.
    """
    given = options.make_submit_fields(priority, webhook, metadata, fields, max_age)
    check_items(items)
    session.client.models.get(model)  # to find out now whether the model and the gateway are there
    session.open_page("/jobs", model=model)
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        stack.enter_context(explain_restart())
        journal, results = open_files(items, output, restart=restart)
        stack.callback(close_files, journal, results)
        client = stack.enter_context(Charonia(profile=session.profile, timeout=CALL_SECONDS))
        source = stack.enter_context(contextlib.closing(ItemFile(items, client, model)))
        beginning = Beginning(model, client.url, make_fields(model, **given), ordered)
        run = Run(client, Task(model, given, concurrency, ordered), source, journal, results, Bar(session, model))
        work(session, run, source, beginning)
        journal.remove()
    report(session, results, time.monotonic() - began)


@contextlib.contextmanager
def explain_restart() -> Iterator[None]:
    """Say how to begin anew if a run cannot go on."""
    try:
        yield
    except ResumeError as error:
        advice = ", or begin anew with --restart" if error.can_restart else ""
        raise InvalidArgument(f"{error.reason}{advice}") from error


def check_items(items: Path) -> None:
    """Raise InvalidArgument for a pipe: a run that goes on reads the items again."""
    if not items.is_file():
        raise InvalidArgument(f"{items} is no plain file, and a run that goes on reads it again; write it to a file")


def work(session: Session, run: Run, source: ItemFile, beginning: Beginning) -> None:
    """Run until each item has its line. If it cannot go on, tell how it can later."""
    try:
        with run.bar as bar:
            run.resume(beginning)
            if run.results.written:
                session.note(f"going on: {run.results.written} items have their results already")
            bar.begin(source.count() if bar.is_seen else None, run.results.written, run.results.failed)
            run.finish()
        run.results.finish()
    except KeyboardInterrupt:
        session.note(f"\n{explain_end(run)}")
        raise
    except (InvalidArgument, ResumeError):
        raise
    except CharoniaError as error:
        if isinstance(error, InvalidRequest) and not run.has_begun:  # leave nothing of a run that never began
            run.forget()
        else:
            session.note(LOST if isinstance(error, NotFound) else explain_end(run))
        raise
    except OSError:  # such as a full disk
        session.note(explain_end(run))
        raise


def explain_end(run: Run) -> str:
    """Say what goes on after the end of the command, and how to stop it."""
    return f"{GO_ON} To cancel the jobs: charonia cancel {' '.join(run.batches)}" if run.batches else GO_ON


def report(session: Session, results: ResultFile, seconds: float) -> None:
    """Tell how the run went. Exit with 1 if an item failed."""
    found = {"items": results.written, "failed": results.failed, "seconds": round(seconds, 1)}
    if session.as_json:
        session.print_json({**found, "results": str(results.path)})
    else:
        shown = show_seconds(seconds) if seconds >= 10 else show_ms(1000 * seconds)
        succeeded = results.written - results.failed
        session.note(f"{succeeded} succeeded, {results.failed} failed in {shown}; wrote {results.path}")
    if (first := results.first_failure) is not None:
        reason = f"{first.error.code}: {first.error.message}" if first.error else "no reason is known"
        session.note(f"item {first.index} {first.status}: {reason}; all reasons are in {results.path}")
        raise typer.Exit(FAILED)
