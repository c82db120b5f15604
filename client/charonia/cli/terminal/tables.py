"""How values look in tables. Pure."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timezone
from typing import TypeVar

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from charonia.cli.session import Session
from charonia.cli.terminal.console import show_text, show_text_line

NOTHING = "–"
ID_WIDTH = len("job_") + 26
STYLES = {
    "succeeded": "green",
    "ready": "green",
    "enabled": "green",
    "completed": "green",
    "processing": "cyan",
    "running": "cyan",
    "canceling": "yellow",
    "queued": "blue",
    "pending": "blue",
    "failed": "red",
    "exhausted": "red",
    "disabled": "red",
    "away": "red",
    "loading": "cyan",
    "draining": "yellow",
    "expired": "yellow",
    "canceled": "yellow",
    "paused": "yellow",
}
Row = TypeVar("Row")
Cell = str | Text


def show_status(status: str) -> Text:
    """Return a status in its color."""
    return show_text_line(status, STYLES.get(status, ""))


def show_age(time: datetime | None, now: datetime | None = None) -> str:
    """Return how long ago a time was, or how far ahead it is, such as `5m`."""
    if time is None:
        return NOTHING
    seconds = ((now or datetime.now(timezone.utc)) - time).total_seconds()
    return show_seconds(seconds) if seconds >= 0 else f"in {show_seconds(-seconds)}"


def show_expiry(time: datetime | None, now: datetime | None = None) -> str:
    """Return how far ahead the end of something is, such as `in 5m`, or that it was."""
    if time is not None and time <= (now or datetime.now(timezone.utc)):
        return "expired"
    return show_age(time, now)


def show_seconds(seconds: float) -> str:
    """Return a long duration in its largest unit."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"


def show_ms(milliseconds: float | None) -> str:
    """Return a short duration."""
    if milliseconds is None:
        return NOTHING
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"


def show_bytes(size: int) -> str:
    """Return a size in its largest unit."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if size >= 1024**power:
            return f"{size / 1024**power:.1f} {unit}"
    return f"{size} B"


def show_time(time: datetime | None) -> str:
    """Return a time in the local zone, to the second."""
    return NOTHING if time is None else time.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def make_table(columns: Sequence[str], *, right: Sequence[str] = (), flexible: Sequence[str] = ()) -> Table:
    """Return an empty table. Columns in `right` have numbers; those in `flexible` are cut if the terminal is narrow."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(
            name,
            justify="right" if name in right else "left",
            no_wrap=name not in flexible,
            min_width=ID_WIDTH if name == "ID" else None,  # an id that is cut is of no use
        )
    return table


def add_row(table: Table, cells: Sequence[Cell]) -> None:
    """Add a row of one line."""
    texts = [each if isinstance(each, Text) else show_text_line(each) for each in cells]
    for each in texts:
        each.no_wrap, each.overflow = True, "ellipsis"
    table.add_row(*texts)


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number of things, such as `1 job` or `1,200 jobs`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def print_list(
    session: Session, rows: Iterable[Row], table: Table, show: Callable[[Row], Sequence[Cell]], nothing: str
) -> None:
    """Print each row as JSON, or all in a table; `nothing` if there are none."""
    for row in rows:
        if session.as_json:
            session.print_json(row)
        else:
            add_row(table, show(row))
    if not session.as_json:
        if table.row_count:
            session.out.print(table)
        else:
            session.note(nothing)


def print_fields(session: Session, fields: Iterable[tuple[str, Cell | RenderableType | None]]) -> None:
    """Print names and values, without those that are None."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in fields:
        if value is not None:
            table.add_row(show_text_line(name), show_text(value) if isinstance(value, str) else value)
    session.out.print(table)
