"""Verdicts, and the table of them."""

import pytest

from benchmarks import aims
from benchmarks.aims import AIMS, Aim
from benchmarks.report import Figure
from benchmarks.sections import SECTIONS

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
    _, *rows = aims.lay_out([FAST._replace(title="{rows:,}"), CHEAP], figures, {"rows": 10_000})
    assert [row.split() for row in rows] == [
        ["10,000", "≥", "100", "90", "80", "–", "250", "not", "reached"],
        ["CPU-ms", "≤", "2.5", "2", "1", "–", "3", "reached"],
    ]


def test_every_aim_is_titled_with_what_is_set_up() -> None:
    setup = {name: 1000 for section in SECTIONS.values() for name in section.options}
    assert len(aims.name_figures(AIMS, setup)) == len(AIMS)
