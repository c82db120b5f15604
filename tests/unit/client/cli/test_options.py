"""Options become times, headers and choices."""

from datetime import UTC, date, datetime, timedelta

import pytest
from charonia.cli.arguments import InvalidArgument
from charonia.cli.options import FIELDS, read_choices, read_day, read_headers, read_pairs, read_time


def test_ages_and_times_are_read() -> None:
    now = datetime.now(UTC)
    ago, ahead = read_time("--since", "2h"), read_time("--expires-at", "30d", ahead=True)
    assert ago is not None
    assert ahead is not None
    assert abs(ago - (now - timedelta(hours=2))) < timedelta(minutes=1)
    assert abs(ahead - (now + timedelta(days=30))) < timedelta(minutes=1)
    assert read_time("--since", "2026-12-01T10:00:00Z") == datetime(2026, 12, 1, 10, tzinfo=UTC)
    assert read_time("--since", None) is None


@pytest.mark.parametrize("text", ["", "h", "yesterday", "1w", "-1h", "99999999999d", "²h", "2026-13-01"])
def test_what_is_no_time_is_named(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"--since .* is no time; write an age such as 15m"):
        read_time("--since", text)


def test_a_day_stays_itself_in_every_time_zone() -> None:
    assert read_day("--since", "2026-12-01") == date(2026, 12, 1)
    assert read_day("--since", "2026-12-01T23:30:00-02:00") == date(2026, 12, 2)
    assert read_day("--until", None) is None
    with pytest.raises(InvalidArgument):
        read_day("--since", "2026-12-32")


def test_fields_of_an_object_are_read_one_by_one() -> None:
    given = ["output.location=s3://a/b/", "retry.max_attempts=2", "retry.initial_delay=0.5", "timeout=5", "version=x"]
    assert read_pairs("--set", given, FIELDS) == {
        "output": {"location": "s3://a/b/"},
        "retry": {"max_attempts": 2, "initial_delay": 0.5},
        "timeout": 5,
        "version": "x",
    }
    assert read_pairs("--metadata", ["a.b=1"]) == {"a.b": 1}
    with pytest.raises(InvalidArgument, match="'retry' is given as a whole already"):
        read_pairs("--set", ["retry=5", "retry.max_attempts=2"], FIELDS)
    with pytest.raises(InvalidArgument, match="there is no field 'outputs'"):
        read_pairs("--set", ["outputs.location=x"], FIELDS)


def test_headers_are_read() -> None:
    assert read_headers("--header", ["A: b:c", "d:"]) == {"A": "b:c", "d": ""}
    for wrong in ("a", ": b"):
        with pytest.raises(InvalidArgument, match="write NAME:VALUE"):
            read_headers("--header", [wrong])


def test_choices_are_checked() -> None:
    assert read_choices("--scope", ["read", "submit", "read"], ["submit", "read", "admin"]) == ["submit", "read"]
    with pytest.raises(InvalidArgument, match="--scope 'write': write one of submit, read"):
        read_choices("--scope", ["write"], ["submit", "read"])
