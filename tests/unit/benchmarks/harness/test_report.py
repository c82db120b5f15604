"""Figures of several rounds."""

from benchmarks.harness.bench import rotate
from benchmarks.harness.report import Figure, format_table, percentiles, pick, summarize


def test_each_figure_has_its_median_and_spread_over_the_rounds_that_have_it() -> None:
    rounds = [{"rate": 100.0, "once": 1.0}, {"rate": 300.0}, {"rate": 200.04}]
    assert summarize(rounds) == {"rate": Figure(200, 100, 300), "once": Figure(1, 1, 1)}


def test_percentiles_are_named() -> None:
    found = percentiles("webhook", list(map(float, range(101))))
    assert found == {"webhook.p50": 50, "webhook.p99": 99, "webhook.max": 100}
    assert percentiles("webhook", []) == {}


def test_figures_are_picked_by_the_beginnings_of_their_names() -> None:
    assert pick({"rate": 1, "cpu.triton": 2, "own": 3}, "rate", "cpu") == {"rate": 1, "cpu.triton": 2}


def test_each_round_begins_with_another_variant() -> None:
    orders = rotate(("off", "some", "all"))
    assert [next(orders)[0] for _ in range(4)] == ["off", "some", "all", "off"]


def test_details_have_tables_of_their_own_without_small_ones() -> None:
    values = {
        "open.rows": 3,
        "open.rows/jobs.inserted": 2,
        "open.rows/rare.updated": 0.01,
        "full.rows/jobs.inserted": 1,
    }
    _, *lines = format_table({name: Figure(value, value, value) for name, value in values.items()})
    assert [line.split() for line in lines] == [
        ["open.rows", "3", "3", "3"],
        [],
        ["rows", "open", "full"],
        ["jobs.inserted", "2", "1"],
    ]
