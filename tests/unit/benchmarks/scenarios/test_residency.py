"""The goals of the scenario residency."""

import pytest

from benchmarks.scenarios.residency import HELD, MAX_WAIT, TAKEN, check_goals

REACHED = {
    "zipf.charonia.swaps": 10.0,
    "zipf.lru.swaps": 20.0,
    "zipf.charonia.rate": 15.0,
    "zipf.lru.rate": 10.0,
    "zipf.fifo.rate": 10.0,
    **{f"{pattern}.charonia.wait.p99": 1000.0 * MAX_WAIT for pattern in ("zipf", "uniform", "bursts")},
    "zipf.charonia.memory.rows": HELD * TAKEN / 1e6,
    "bursts.charonia.memory.processes": HELD * TAKEN / 1e6,
    "bursts.lru.memory.processes": 9e9,
}


def test_all_goals_are_reached_at_their_bounds() -> None:
    assert {*check_goals(REACHED).values()} == {True}


@pytest.mark.parametrize(
    ("figure", "value", "missed"),
    [
        ("zipf.lru.swaps", 19.0, 1),
        ("zipf.charonia.rate", 14.9, 2),
        ("uniform.charonia.wait.p99", 1000.0 * MAX_WAIT + 1, 1),
        ("bursts.charonia.memory.processes", HELD * TAKEN / 1e6 + 1, 1),
    ],
)
def test_a_goal_is_missed(figure: str, value: float, missed: int) -> None:
    assert [*check_goals(REACHED | {figure: value}).values()].count(False) == missed
