"""The screen of `charonia top`. Pure."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from charonia.admin_schemas import QueueStats, Stats
from charonia.cli.commands.models import find_status
from charonia.cli.terminal.console import show_text_line
from charonia.cli.terminal.tables import add_row, show_age, show_ms, show_seconds, show_status
from charonia.model_schemas import (
    ModelInfo,
)

MOST_DEAD_LETTERS = 100  # that are counted
FEWEST_ROWS = 3
LEAST_NAME = 12  # characters
FRAME_ROWS = 7  # of the screen that show no model
WIDTHS = {
    "STATUS": 6,
    "WAITING": 7,
    "OLDEST": 6,
    "RUNNING": 7,
    "ENDED/m": 7,
    "FAILED/m": 8,
    "WAITED": 7,
    "RAN": 7,
}


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The tenant's jobs and models at a time. There may be more than 100 dead letters."""

    stats: Stats
    models: list[ModelInfo]
    dead_letters: int


class Row(NamedTuple):
    """A model: jobs of all priorities, rates of the last five minutes, and the times of its slowest priority."""

    name: str
    status: str
    waiting: int
    oldest: datetime | None
    running: int
    slots: int
    ended: float
    failed: float
    queue_p95: int | None
    inference_p95: int | None


def make_rows(snapshot: Snapshot) -> list[Row]:
    """Return the models, the busiest first."""
    known = {each.name: each for each in snapshot.models}
    names = dict.fromkeys([*known, *(each.model for each in snapshot.stats.items)])
    rows = [
        make_row(name, known.get(name), [each for each in snapshot.stats.items if each.model == name]) for name in names
    ]
    return sorted(rows, key=lambda row: (-row.waiting - row.running, -row.ended, row.name))


def make_row(name: str, model: ModelInfo | None, queues: Sequence[QueueStats]) -> Row:
    recent = [each.last_5_minutes for each in queues]
    return Row(
        name,
        "away" if model is None else find_status(model),
        sum(each.waiting for each in queues),
        min((each.oldest_waiting_at for each in queues if each.oldest_waiting_at), default=None),
        sum(each.running for each in queues),
        (model.slots or 0) if model else 0,
        sum(each.ended_per_minute for each in recent),
        sum(each.failed_per_minute for each in recent),
        find_slowest(each.queue_ms.p95 for each in recent),
        find_slowest(each.inference_ms.p95 for each in recent),
    )


def find_slowest(times: Iterable[int | None]) -> int | None:
    return max((each for each in times if each is not None), default=None)


def show_rate(per_minute: float) -> str:
    """Return a number of jobs a minute in few characters."""
    if per_minute == 0:
        return "0"
    return f"{per_minute:.1f}" if per_minute < 10 else show_count(per_minute)


def show_count(number: float) -> str:
    """Return a number in few characters."""
    if number >= 999_500:
        return f"{number / 1_000_000:,.1f}M"
    return f"{number / 1000:.0f}k" if number >= 100_000 else f"{number:,.0f}"


def show_wait(milliseconds: int | None) -> str:
    """Return a duration in at most seven characters."""
    return show_ms(milliseconds) if (milliseconds or 0) < 100_000 else show_seconds((milliseconds or 0) / 1000)


def show_running(row: Row) -> str:
    """Return how many jobs run, and of how many at a time if there is room."""
    both = f"{row.running}/{row.slots}"
    return both if row.slots and len(both) <= WIDTHS["RUNNING"] else show_count(row.running)


def show_row(row: Row, now: datetime) -> list[str | Text]:
    return [
        row.name,
        show_status(row.status),
        Text(show_count(row.waiting), "bold" if row.waiting else "dim"),
        show_age(row.oldest, now),
        Text(show_running(row), "cyan" if row.running else "dim"),
        show_rate(row.ended),
        Text(show_rate(row.failed), "red" if row.failed else ""),
        show_wait(row.queue_p95),
        show_wait(row.inference_p95),
    ]


def make_table(rows: Sequence[Row], now: datetime, width: int, most: int | None = None) -> RenderableType:
    """Return a table of the models: with at most so many rows, and as many columns as have room."""
    columns = choose_columns(width)
    shown = rows if most is None or len(rows) <= most else rows[: most - 1]
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold", expand=True)
    table.add_column("MODEL", ratio=1, no_wrap=True, overflow="ellipsis")
    for name in columns:
        table.add_column(name, width=WIDTHS[name], justify="left" if name == "STATUS" else "right", no_wrap=True)
    for row in shown:
        add_row(table, show_row(row, now)[: len(columns) + 1])
    left = len(rows) - len(shown)
    return Group(table, Text(f"… {left} more", "dim")) if left else table


def choose_columns(width: int) -> list[str]:
    """Return the first columns that leave room for the names of models."""
    columns = list(WIDTHS)
    while columns and sum(WIDTHS[each] + 1 for each in columns) + LEAST_NAME > width:
        columns.pop()
    return columns


def summarize(snapshot: Snapshot) -> Text:
    """Return the sums in two lines."""
    items = snapshot.stats.items
    names = dict.fromkeys(["high", "normal", "low", *(each.priority for each in items)])
    waiting = {name: sum(each.waiting for each in items if each.priority == name) for name in names}
    scheduled = sum(each.scheduled for each in items)
    failed = sum(each.last_5_minutes.failed_per_minute for each in items)
    ended = sum(each.last_5_minutes.ended_per_minute for each in items)
    dead = f"{snapshot.dead_letters}{'+' if snapshot.dead_letters >= MOST_DEAD_LETTERS else ''}"
    details = [f"{number:,} {name}" for name, number in waiting.items() if number]
    return Text.assemble(
        ("waiting ", "dim"),
        (f"{sum(waiting.values()):,}", "bold"),
        (f" ({', '.join(details)})" if details else "", "dim"),
        (f"  scheduled {scheduled:,}" if scheduled else "", "dim"),
        ("  running ", "dim"),
        (f"{sum(each.running for each in items):,}", "bold cyan"),
        "\n",
        ("ended ", "dim"),
        f"{show_rate(ended)}/min",
        ("  failed ", "dim"),
        (f"{show_rate(failed)}/min", "red" if failed else ""),
        ("  dead letters ", "dim"),
        (dead, "red" if snapshot.dead_letters else ""),
        no_wrap=True,
        overflow="ellipsis",
    )


class TopView:
    """The whole screen. `fail` shows an outage until the next `show`."""

    def __init__(self, url: str, snapshot: Snapshot) -> None:
        self._url = url
        self._outage = ""
        self.snapshot = snapshot

    def show(self, snapshot: Snapshot) -> None:
        """Show new numbers."""
        self.snapshot, self._outage = snapshot, ""

    def fail(self, reason: str) -> None:
        """Show that the gateway does not answer."""
        self._outage = " ".join(reason.split())

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        snapshot, now = self.snapshot, datetime.now().astimezone()
        most = max(FEWEST_ROWS, console.size.height - FRAME_ROWS)
        rows = make_rows(snapshot)
        yield self._show_header(now)
        yield summarize(snapshot)
        yield Text("")
        yield (
            make_table(rows, snapshot.stats.at, options.max_width, most)
            if rows
            else Text("no models; Triton serves none to this key", "dim")
        )
        yield Text("")
        yield Text("q quits · rates of 5 minutes, times p95", "dim", no_wrap=True, overflow="ellipsis")

    def _show_header(self, now: datetime) -> RenderableType:
        if self._outage:
            age = show_seconds((now - self.snapshot.stats.at).total_seconds())
            text = f"the gateway is away, numbers are {age} old: {self._outage}"
            line = show_text_line(text, "bold red")
            line.no_wrap, line.overflow = True, "ellipsis"
            return line
        grid = Table.grid(expand=True)
        grid.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
        grid.add_column(justify="right", no_wrap=True)
        grid.add_row(Text.assemble(("charonia top", "bold"), "  ", self._url), Text(f"{now:%H:%M:%S}", "dim"))
        return grid
