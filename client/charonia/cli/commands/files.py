"""The tenant's files: files list, show, upload, download and delete."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.filesize import decimal
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from charonia.cli import options
from charonia.cli.arguments import InvalidArgument
from charonia.cli.changes import remove_each
from charonia.cli.registry import command, make_group
from charonia.cli.session import Session
from charonia.cli.terminal.prompts import confirm
from charonia.cli.terminal.tables import (
    count,
    make_table,
    print_fields,
    print_list,
    show_age,
    show_expiry,
    show_time,
)
from charonia.schemas import FileData

BAR_WIDTH = 20
FileId = Annotated[str, typer.Argument(metavar="FILE", help="The id of a file.")]
FileIds = Annotated[list[str], typer.Argument(metavar="FILE...", help="The ids of files.")]
Paths = Annotated[list[Path], typer.Argument(metavar="PATH...", exists=True, dir_okay=False, help="What to upload.")]
Output = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--output", "-o", metavar="PATH", help="Where to write it; by default to a file named by the id."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = make_group("Files: large inputs that jobs use by reference. Without a command it lists them.")
    app.add_typer(group, name="files", rich_help_panel="Jobs")
    command(group, "list", opens=True)(list_files)
    command(group, "show")(show_file)
    command(group, "upload")(upload_files)
    command(group, "download")(download_file)
    command(group, "delete")(delete_files)


def list_files(session: Session, limit: options.Limit = 20) -> None:
    """List the files, newest first."""
    table = make_table(["ID", "SIZE", "TYPE", "AGE", "EXPIRES"], right=["SIZE", "AGE", "EXPIRES"], flexible=["TYPE"])
    print_list(session, islice(session.client.files.list(), limit or None), table, show_row, "no files")
    session.open_page("/files")


def show_row(file: FileData) -> Sequence[str]:
    return file.id, decimal(file.size), file.content_type, show_age(file.created_at), show_expiry(file.expires_at)


def show_file(session: Session, file: FileId) -> None:
    """Show a file without its content."""
    found = session.client.files.get(file)
    if session.as_json:
        session.print_json(found)
        return
    expiry = None if found.expires_at is None else f"{show_time(found.expires_at)} ({show_expiry(found.expires_at)})"
    print_fields(
        session,
        [
            ("id", found.id),
            ("size", decimal(found.size)),
            ("type", found.content_type),
            ("SHA-256", found.sha256),
            ("created", show_time(found.created_at)),
            ("expires", expiry or "with its job"),
        ],
    )


def upload_files(
    session: Session,
    paths: Paths,
    content_type: Annotated[options.Text, typer.Option(metavar="TYPE", help="Its type, such as audio/flac.")] = None,
    expires_in: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(metavar="SECONDS", min=1, help="How long to keep it; a day by default."),
    ] = None,
) -> None:
    """Upload files, and print their ids. Use an id as an input: NAME=file_…."""
    for path in paths:
        with show_progress(session, path.name, path.stat().st_size) as advance:
            file = session.client.files.upload(
                path, content_type=content_type, expires_in=expires_in, on_progress=advance
            )
        if session.as_json:
            session.print_json(file)
        else:
            session.out.print(file.id)


def download_file(session: Session, file: FileId, output: Output = None) -> None:
    """Download a file. Nothing is written before the content is whole."""
    target = output or Path(file)
    if target.is_dir():
        target /= file
    if not target.parent.is_dir():
        raise InvalidArgument(f"--output: there is no folder {str(target.parent)!r}; create it first")
    found = session.client.files.get(file)
    with show_progress(session, target.name, found.size) as advance:
        session.client.files.save(file, target, on_progress=advance)
    if session.as_json:
        session.print_json({"id": file, "path": str(target), "size": found.size})
    else:
        session.out.print(str(target))


def delete_files(session: Session, files: FileIds, yes: options.Yes = False) -> None:
    """Delete files for good."""
    confirm(f"Delete {count(len(files), 'file')} for good?", yes=yes)
    remove_each(session, files, session.client.files.delete, "deleted")


@contextlib.contextmanager
def show_progress(session: Session, name: str, size: int) -> Iterator[Callable[[int], None]]:
    """Yield a function that moves a bar to a position in bytes. Nobody sees it but on a terminal."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=BAR_WIDTH),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    with Progress(*columns, console=session.err, disable=not session.err.is_terminal, transient=True) as progress:
        task = progress.add_task(name if len(name) <= BAR_WIDTH else f"{name[: BAR_WIDTH - 1]}…", total=size)
        yield lambda position: progress.update(task, completed=position)
