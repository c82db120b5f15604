"""The options of `make bench`, and its file."""

import json
from pathlib import Path

import pytest

from benchmarks.command_line import read_options, write_result


def test_the_aims_are_the_default() -> None:
    aims, speed = read_options([]), read_options(["speed", "--rounds", "5"])
    assert (aims.what, aims.rounds, aims.seconds) == ("aims", 3, 4.0)
    assert (speed.what, speed.rounds, speed.seconds) == ("speed", 5, 4.0)


@pytest.mark.parametrize("arguments", [["--rounds", "0"], ["--seconds", "301"], ["--jobs", "4500"], ["--name", "a/b"]])
def test_a_wrong_option_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read_options(arguments)
    assert arguments[0] in capsys.readouterr().err


def test_the_file_has_the_rounds_that_were_measured(tmp_path: Path) -> None:
    file = tmp_path / "name.partial.json"
    write_result({"what": "speed"}, [{"rate": 10.00004}, {"rate": 30.0}, {}], file)
    assert json.loads(file.read_text()) == {
        "what": "speed",
        "figures": {"rate": {"median": 20.0, "min": 10.0, "max": 30.0}},
        "rounds": [{"rate": 10.0}, {"rate": 30.0}],
    }
