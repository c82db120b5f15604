"""Verdicts, and the table of them."""

import pytest

from benchmarks.harness.aims import AIMS, Aim, compare, format_aims
from benchmarks.harness.report import Figure
from benchmarks.scenarios import NAMES, load_scenario

FAST = Aim("rate", "≥", 100, "jobs/s")
CHEAP = Aim("cost", "≤", 2.5, "CPU-ms")


@pytest.mark.parametrize(
    ("aim", "median", "verdict"),
    [
        (FAST, 99.9, "not reached"),
        (FAST, 100, "reached"),
        (CHEAP, 2.51, "not reached"),
        (CHEAP, 2.5, "reached"),
        (CHEAP, 0, "reached"),
    ],
)
def test_an_aim_is_judged_by_the_median(aim: Aim, median: float, verdict: str) -> None:
    assert compare(aim, median) == verdict


def test_the_table_has_a_row_for_each_aim() -> None:
    figures = {"rate": Figure(90, 80, 250), "cost": Figure(2, 1, 3)}
    _, *rows = format_aims([FAST._replace(title="{rows:,}"), CHEAP], figures, {"rows": 10_000})
    assert [row.split() for row in rows] == [
        ["10,000", "≥", "100", "90", "80", "–", "250", "not", "reached"],
        ["CPU-ms", "≤", "2.5", "2", "1", "–", "3", "reached"],
    ]


def test_every_title_is_complete_with_the_setup() -> None:
    setup = {name: 1000 for each in NAMES for name in load_scenario(each).options}
    figures = {aim.figure: Figure(1, 1, 1) for aim in AIMS}
    _, *rows = format_aims(AIMS, figures, setup)
    assert not [row for row in rows if "{" in row]
