"""A short version of `make storm`: load and random faults break no promise."""

from pathlib import Path

from tests.storm.run import Plan, run


def test_short_storm_breaks_no_promise(tmp_path: Path) -> None:
    plan = Plan(tmp_path, seed=85, seconds=5, rate=20, in_flight=300, pace=0.3, backlog=1000, judges_speed=False)
    assert run(plan, print) == []
