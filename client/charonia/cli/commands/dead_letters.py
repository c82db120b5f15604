"""Jobs that failed for good: dead-letters list and replay."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Annotated, Any

import typer

from charonia.cli import options
from charonia.cli.arguments import InvalidArgument
from charonia.cli.exits import REFUSED
from charonia.cli.registry import command, make_group
from charonia.cli.session import Session
from charonia.cli.terminal.prompts import confirm
from charonia.cli.terminal.tables import NOTHING, count, make_table, print_list, show_age
from charonia.schemas import JobData

MOST_COUNTED = 1000  # dead letters that are read before the question
MOST_KINDS = 10  # that are shown before the question
CHUNK = 100  # jobs that one call replays

ErrorFilter = Annotated[options.Text, typer.Option(metavar="CODE", help="Only of this error code.")]
JobIds = Annotated[options.Texts, typer.Argument(metavar="[JOB]...", help="The ids of jobs.")]
Target = Annotated[options.Text, typer.Option(metavar="MODEL", help="Run another model.")]
Everything = Annotated[bool, typer.Option("--all", help="Replay every dead letter.")]
Most = Annotated[options.Number, typer.Option(min=1, help="How many to replay at most, the newest.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = make_group("Jobs that failed for good. Without a command it lists them.")
    app.add_typer(group, name="dead-letters", rich_help_panel="Jobs")
    command(group, "list", opens=True)(list_dead_letters)
    command(group, "replay")(replay)


def list_dead_letters(
    session: Session,
    model: options.ModelFilter = None,
    error: ErrorFilter = None,
    since: options.Since = None,
    limit: options.Limit = 20,
) -> None:
    """List jobs that failed for good, newest first."""
    after = options.read_time("--since", since)
    found = session.client.dead_letters.list(model=model, error=error, created_after=after)
    table = make_table(["ID", "MODEL", "AGE", "TRIES", "ERROR"], right=["AGE", "TRIES"], flexible=["MODEL", "ERROR"])
    print_list(session, islice(found, limit or None), table, show_row, "no dead letters")
    session.open_page("/dead-letters", model=model, error=error)


def show_row(job: JobData) -> Sequence[str]:
    error = NOTHING if job.error is None else f"{job.error.code}: {job.error.message}"
    return job.id, job.model, show_age(job.created_at), str(job.attempt), error


def replay(
    session: Session,
    jobs: JobIds = None,
    model: options.ModelFilter = None,
    error: ErrorFilter = None,
    since: options.Since = None,
    everything: Everything = False,
    target_model: Target = None,
    limit: Most = None,
    yes: options.Yes = False,
) -> None:
    """Queue dead letters again: these jobs, those that match, or all of them.

    For example: `charonia dead-letters replay --model ocr --since 2h`.
    """
    after = options.read_time("--since", since)
    check_selection(jobs, has_filter=any((model, error, after)), everything=everything)
    if jobs:
        replay_chunks(session, jobs, target_model)
        return
    matching = session.client.dead_letters.list(model=model, error=error, created_after=after)
    found = islice(matching, limit)
    first = list(islice(found, MOST_COUNTED + 1))
    if not first:
        session.note("no dead letters match")
        return
    number = f"more than {MOST_COUNTED:,} jobs" if len(first) > MOST_COUNTED else count(len(first), "job")
    if not yes:
        note_kinds(session, first)
    confirm(f"Replay {number}{f' on {target_model}' if target_model else ''}?", yes=yes)
    replay_chunks(session, (each.id for each in chain(first, found)), target_model)


def note_kinds(session: Session, jobs: Iterable[JobData]) -> None:
    """Say of which models and errors the jobs are, the most frequent first."""
    kinds = Counter((each.model, each.error.code if each.error else NOTHING) for each in jobs)
    for (model, code), number in kinds.most_common(MOST_KINDS):
        session.note(f"{count(number, 'job')} of {model}: {code}")
    if len(kinds) > MOST_KINDS:
        session.note("and others")


def check_selection(jobs: Sequence[str] | None, *, has_filter: bool, everything: bool) -> None:
    """Raise InvalidArgument unless there is exactly one selection."""
    if not (jobs or has_filter or everything):
        raise InvalidArgument("which jobs? Name some, or add --model, --error, --since or --all")
    if jobs and (has_filter or everything):
        raise InvalidArgument("name jobs, or add --model, --error, --since or --all; not both")
    if has_filter and everything:
        raise InvalidArgument("--all takes no filter; leave out --all, or --model, --error and --since")


def replay_chunks(session: Session, ids: Iterable[str], target_model: str | None) -> None:
    """Replay each of these jobs once. Exit with an error if some are not replayed."""
    replayed = skipped = 0
    try:
        for chunk in make_chunks(ids):
            done = session.client.dead_letters.replay(ids=chunk, target_model=target_model)
            replayed, skipped = replayed + len(done.replayed), skipped + len(done.skipped)
            if session.as_json:
                session.print_json({"replayed": done.replayed, "skipped": done.skipped})
            else:
                for job_id in done.replayed:
                    session.out.print(f"{job_id} replayed")
                for each in done.skipped:
                    session.note(f"{each.id}: not replayed; {each.detail}")
    except BaseException:  # also Ctrl-C
        if replayed or skipped:
            note_replayed(session, replayed, skipped)
        raise
    note_replayed(session, replayed, skipped)
    if skipped:
        raise typer.Exit(REFUSED)


def note_replayed(session: Session, replayed: int, skipped: int) -> None:
    """Say how many jobs were replayed."""
    session.note(f"replayed {count(replayed, 'job')}{f', skipped {skipped:,}' if skipped else ''}")


def make_chunks(ids: Iterable[str]) -> Iterator[list[str]]:
    """Yield the ids in lists. Only one list is in memory at a time."""
    remaining: Iterator[Any] = iter(ids)
    while chunk := list(islice(remaining, CHUNK)):
        yield chunk
