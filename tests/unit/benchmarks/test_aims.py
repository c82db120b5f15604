"""Verdicts, and the table of them."""

import pytest

from benchmarks import aims
from benchmarks.aims import AIMS, Aim
from benchmarks.report import Figure

FAST = Aim("rate", "≥", 100, "jobs/s", stretch=200)
CHEAP = Aim("cost", "≤", 2.5, "CPU-ms", stretch=1.2)


@pytest.mark.parametrize(
    ("aim", "median", "verdict"),
    [
        (FAST, 99.9, "not reached"),
        (FAST, 100, "reached"),
        (FAST, 200, "reached, and ≥ 200 too"),
        (CHEAP, 2.51, "not reached"),
        (CHEAP, 2.5, "reached"),
        (CHEAP, 1.2, "reached, and ≤ 1.2 too"),
        (CHEAP._replace(stretch=None), 0, "reached"),
    ],
)
def test_an_aim_is_judged_by_the_median(aim: Aim, median: float, verdict: str) -> None:
    assert aims.judge(aim, median) == verdict


def test_the_table_has_a_row_for_each_aim() -> None:
    figures = {"rate": Figure(90, 80, 250), "cost": Figure(2, 1, 3)}
    _, *rows = aims.lay_out([FAST, CHEAP], figures)
    assert [row.split() for row in rows] == [
        ["jobs/s", "≥", "100", "90", "80", "–", "250", "not", "reached"],
        ["CPU-ms", "≤", "2.5", "2", "1", "–", "3", "reached"],
    ]


def test_no_figure_has_two_aims() -> None:
    assert len({aim.figure for aim in AIMS}) == len(AIMS)
