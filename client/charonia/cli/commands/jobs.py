"""Looks at jobs and changes them: jobs, job, cancel, retry and erase."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Annotated, Optional

import typer
from rich.table import Table

from charonia import Job
from charonia.cli import options
from charonia.cli.changes import for_each
from charonia.cli.registry import command
from charonia.cli.results import shorten
from charonia.cli.run_steps import make_step_table
from charonia.cli.session import Session
from charonia.cli.terminal.console import show_text, show_text_line
from charonia.cli.terminal.prompts import confirm
from charonia.cli.terminal.tables import (
    NOTHING,
    Cell,
    add_row,
    make_table,
    print_fields,
    print_list,
    show_age,
    show_ms,
    show_status,
    show_time,
)
from charonia.errors import Conflict
from charonia.results import Outputs
from charonia.schemas import JobData, Status

JobIds = Annotated[list[str], typer.Argument(metavar="JOB...", help="The ids of jobs.")]
JobAndBatchIds = Annotated[list[str], typer.Argument(metavar="ID...", help="The ids of jobs and batches.")]
StatusFilter = Annotated[Optional[Status], typer.Option(help="Only jobs in this state.")]  # noqa: UP045
Target = Annotated[options.Text, typer.Option(metavar="MODEL", help="Run another model.")]

BATCH = "batch_"  # how the id of a batch begins


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "jobs", opens=True, rich_help_panel="Jobs")(list_jobs)
    command(app, "job", opens=True, rich_help_panel="Jobs")(show_job)
    command(app, rich_help_panel="Jobs")(cancel)
    command(app, rich_help_panel="Jobs")(retry)
    command(app, rich_help_panel="Jobs")(erase)


def list_jobs(
    session: Session,
    status: StatusFilter = None,
    model: options.ModelFilter = None,
    batch: Annotated[options.Text, typer.Option(help="Only jobs of this batch.")] = None,
    parent: Annotated[
        options.Text, typer.Option(metavar="RUN", help="The jobs of the steps of this run, in order.")
    ] = None,
    step: Annotated[options.Text, typer.Option(help="Only jobs of this step; needs --parent.")] = None,
    since: options.Since = None,
    limit: options.Limit = 20,
) -> None:
    """List the jobs, newest first. Those of the steps of a run are listed only with --parent."""
    after = options.read_time("--since", since)
    found = session.client.jobs.list(
        status=status, model=model, batch=batch, parent=parent, step=step, created_after=after
    )
    print_jobs(session, islice(found, limit or None), "no jobs")
    session.open_page("/jobs", status=status, model=model, batch=batch, parent=parent, step=step)


def print_jobs(session: Session, jobs: Iterator[JobData], nothing: str) -> None:
    """Print jobs in a table, or as JSON."""
    table = make_table(
        ["ID", "STATUS", "MODEL", "AGE", "WAITED", "RAN"], right=["AGE", "WAITED", "RAN"], flexible=["MODEL"]
    )
    print_list(session, jobs, table, show_row, nothing)


def show_row(job: JobData) -> Sequence[Cell]:
    return (
        job.id,
        show_status(job.status),
        job.model,
        show_age(job.created_at),
        show_ms(job.metrics.queue_ms),
        show_ms(job.metrics.inference_ms),
    )


def show_job(
    session: Session,
    job: options.JobId,
    trace: Annotated[
        bool, typer.Option("--trace", help="Show what happened when: waits, attempts, deliveries.")
    ] = False,
) -> None:
    """Show a job with its outputs, and why it waits or failed."""
    found = session.client.jobs.get(job)
    if trace:
        print_trace(session, found)
    elif session.as_json:
        session.print_json(found.data)
    else:
        print_job(session, found)
    session.open_page(f"/jobs/{found.id}")


def print_job(session: Session, job: Job) -> None:
    """Print a job for people."""
    data = job.data
    waiting = data.waiting_for
    fields: list[tuple[str, Cell | Table | None]] = [
        ("id", data.id),
        ("status", show_status(data.status)),
        ("waits for", None if waiting is None else f"{waiting.detail} ({waiting.code})"),
        ("position", None if data.queue_position is None else str(data.queue_position)),
        ("error", None if data.error is None else show_text(f"{data.error.code}: {data.error.message}", "red")),
        (data.kind or "model", data.model + (f" version {data.version}" if data.version else "")),
        ("step", data.step and f"{data.step} of the run {data.parent}"),
        ("priority", data.priority),
        ("attempt", None if data.steps else f"{data.attempt} of {data.max_attempts}"),
        ("submitted", show_time(data.created_at)),
        ("runs at", show_time(data.run_at) if data.run_at > data.created_at and data.attempt == 0 else None),
        ("started", None if data.started_at is None else show_time(data.started_at)),
        ("ended", None if data.finished_at is None else show_time(data.finished_at)),
        ("waited", None if data.metrics.queue_ms is None else show_ms(data.metrics.queue_ms)),
        ("inference", None if data.metrics.inference_ms is None else show_ms(data.metrics.inference_ms)),
        ("webhook", None if data.webhook_status == "none" else data.webhook_status),
        ("metadata", ", ".join(f"{name}={value}" for name, value in data.metadata.items()) or None),
        ("trace", data.trace_id),
    ]
    outputs = Outputs(data.outputs or [])
    fields += [(name, shorten(outputs, name)) for name in outputs]
    if data.outputs_omitted:
        fields.append(("outputs", data.outputs_omitted))
    if data.steps:
        fields.append(("steps", make_step_table(data.steps)))
    print_fields(session, fields)


def print_trace(session: Session, job: Job) -> None:
    """Print what happened to a job when."""
    trace = job.trace()
    if session.as_json:
        session.print_json(trace)
        return
    table = make_table(["AT", "TOOK", "WHAT", "DETAIL"], right=["AT", "TOOK"], flexible=["DETAIL"])
    for span in trace.spans:
        style = "red" if span.failed else ""
        name = show_text_line("  " * span.depth + span.name, style)
        add_row(table, (show_ms(span.at_ms), show_ms(span.took_ms), name, span.detail or NOTHING))
    session.out.print(table)


def cancel(session: Session, jobs: JobAndBatchIds) -> None:
    """Cancel jobs, or all jobs of batches. A running one stops as soon as its model lets it."""
    batches = [each for each in jobs if each.startswith(BATCH)]
    members = dict.fromkeys(chain.from_iterable(cancel_batch(session, each) for each in batches))
    others = [each for each in jobs if each not in batches]
    change_jobs(
        session, [*members, *others], lambda job: cancel_unless_ended(job) if job.id in members else job.cancel()
    )


def cancel_batch(session: Session, batch: str) -> list[str]:
    """Cancel a batch, and return the ids of its jobs that have not ended. Raise NotFound for an unknown batch."""
    with contextlib.suppress(Conflict):  # it is completed, but a job may have been retried
        session.client.batches.cancel(batch)
    return [each.id for each in session.client.jobs.list(batch=batch) if not each.has_ended]


def cancel_unless_ended(job: Job) -> None:
    with contextlib.suppress(Conflict):
        job.cancel()


def retry(session: Session, jobs: JobIds, target_model: Target = None) -> None:
    """Queue failed, canceled or expired jobs again."""
    change_jobs(session, jobs, lambda job: job.retry(target_model=target_model))


def erase(session: Session, jobs: JobIds, yes: options.Yes = False) -> None:
    """Delete the inputs, outputs and metadata of ended jobs for good. Their status and times remain."""
    confirm(f"Erase {len(jobs)} job{'s' if len(jobs) > 1 else ''} for good?", yes=yes)
    change_jobs(session, jobs, lambda job: job.erase())


def change_jobs(session: Session, ids: Sequence[str], change: Callable[[Job], object]) -> None:
    """Change jobs one by one, and print what each is then."""

    def change_job(job_id: str) -> JobData:
        job = session.client.jobs.get(job_id)
        change(job)
        return job.refresh().data

    for_each(session, ids, change_job, lambda data: show_status(data.status))
