"""What is shown on a narrow terminal."""

import io
import time

from charonia.cli.terminal.state_line import Shown
from charonia.cli.terminal.tables import add_row, make_table
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


def test_the_state_stays_on_one_line() -> None:
    (line,) = show(Shown(f"{JOB} queued · position 7 · all slots of the model are taken", time.monotonic() - 65), 40)
    assert len(line) == 40
    (line,) = show(Shown(f"{JOB} processing", time.monotonic() - 5), 80)
    assert line == f"{JOB} processing · 5s"
