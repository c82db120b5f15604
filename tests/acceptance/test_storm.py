"""Whatever is killed under load, no promise is broken: `make storm` in short."""

from pathlib import Path

from tests.storm.run import Plan, run


def test_a_short_storm_breaks_no_promise(tmp_path: Path) -> None:
    assert run(Plan(tmp_path, seed=85, seconds=5, rate=20, in_flight=300, pace=0.3), print) == []
