"""A result beside one of before."""

import msgspec

from benchmarks.comparison import Result, compare
from benchmarks.report import Figure

THEN = Result(
    name="first",
    at="2026-11-21T04:57:41+00:00",
    commit="afb00efa13486a70f5b37e5a9370c3b4407e4709",
    setup={"rounds": 5, "seconds": 5.0},
    figures={"rate": Figure(200, 190, 210), "lost": Figure(0, 0, 0), "old": Figure(1, 1, 1)},
    cpu="one",
    cores=2,
    memory="24 GB",
    system="Linux",
    python="3.11",
    postgresql="15",
    rabbitmq="3",
    triton="2",
    what="speed",
)
TITLES = {"rate": "jobs/s", "lost": "lost", "old": "old", "new": "new"}


def test_each_figure_of_both_is_told_then_and_now() -> None:
    now = msgspec.structs.replace(
        THEN, figures={"rate": Figure(300, 1, 2), "lost": Figure(1, 1, 1), "new": Figure(1, 1, 1)}
    )
    head, columns, *rows = compare(THEN, now, TITLES)
    assert head == "Compared with first.json, of 2026-11-21T04:57:41+00:00, commit afb00efa1:"
    assert columns.split() == ["then", "now", "now/then"]
    assert [row.split() for row in rows] == [["jobs/s", "200", "300", "1.50"], ["lost", "0", "1"]]


def test_another_machine_and_another_setup_are_told_first() -> None:
    now = msgspec.structs.replace(THEN, cores=8, setup={"rounds": 3, "seconds": 5.0, "rows": 10})
    told = [line.strip() for line in compare(THEN, now, TITLES) if "NOT THE SAME" in line]
    assert told == [
        "NOT THE SAME cores: 2 then, 8 now",
        "NOT THE SAME rounds: 5 then, 3 now",
        "NOT THE SAME rows: None then, 10 now",
    ]
