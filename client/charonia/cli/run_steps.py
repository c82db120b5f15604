"""Shows the steps of a run of a pipeline."""

from collections.abc import Mapping

from rich.table import Table

from charonia.cli.terminal.tables import NOTHING, add_row, make_table, show_status
from charonia.schemas import RunStep


def make_step_table(steps: Mapping[str, RunStep]) -> Table:
    """Return a table with a row for each step."""
    table = make_table(["STEP", "STATUS", "DONE", "JOB"], right=["DONE"], flexible=["STEP"])
    for name, step in steps.items():
        add_row(table, (name, show_status(step.status), show_progress(step), step.job or NOTHING))
    return table


def show_progress(step: RunStep) -> str:
    """Return how many elements of a step have succeeded, such as `2 of 3`."""
    return NOTHING if step.total is None else f"{step.done} of {step.total}"
