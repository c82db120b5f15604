"""What is shown on a narrow terminal."""

import io
import time
from datetime import UTC, datetime, timedelta

from charonia.cli.terminal.state_line import Shown
from charonia.cli.terminal.tables import add_row, make_table, show_expiry
from rich.console import Console

JOB = "job_01m7ystyt3fmq9pqw9y6x8q317"


def show(what: object, width: int) -> list[str]:
    """Return the lines of something on a terminal of this width."""
    console = Console(file=io.StringIO(), width=width, highlight=False)
    with console.capture() as shown:
        console.print(what)
    return shown.get().splitlines()


def test_ids_are_never_cut() -> None:
    table = make_table(["ID", "STATUS", "MODEL", "AGE", "WAITED", "RAN"], flexible=["MODEL"])
    add_row(table, (JOB, "succeeded", "a-model-with-a-long-name", "5m", "12 ms", "34 ms"))
    for width in (40, 60, 80):
        assert show(table, width)[1].startswith(JOB)


def test_a_state_with_a_long_reason_is_shown_as_a_whole() -> None:
    reason = "Triton does not have the model ready. Triton could not load it: no module named torch"
    lines = show(Shown(f"{JOB} queued · {reason}", time.monotonic() - 65), 40)
    assert " ".join(line.strip() for line in lines) == f"{JOB} queued · {reason} · 1m"
    assert max(map(len, lines)) <= 40


def test_a_short_state_takes_one_line() -> None:
    (line,) = show(Shown(f"{JOB} processing", time.monotonic() - 5), 80)
    assert line == f"{JOB} processing · 5s"


def test_an_end_that_was_differs_from_one_that_comes() -> None:
    now = datetime.now(UTC)
    assert show_expiry(now - timedelta(seconds=1), now) == "expired"
    assert show_expiry(now + timedelta(hours=2), now) == "in 2h"
    assert show_expiry(None, now) == "–"
