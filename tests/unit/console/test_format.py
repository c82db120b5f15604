"""Values as people read them."""

import pytest

from tests.unit.console.conftest import CallJs

NOW = 1_800_000_000_000  # ms since 1970: 2027-01-15T08:00:00Z


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, "–"),
        (0, "0 ms"),
        (840.4, "840 ms"),
        (3_200, "3.2 s"),
        (59_400, "59.4 s"),
        (245_000, "4 min 5 s"),
        (7_380_000, "2 h 3 min"),
        (273_600_000, "3 d 4 h"),
    ],
)
async def test_duration(call_js: CallJs, ms: float | None, text: str) -> None:
    assert await call_js("format.js", "formatDuration", ms) == text


@pytest.mark.parametrize(
    ("time", "text"),
    [
        ("2027-01-15T08:00:00.400Z", "now"),
        ("2027-01-15T07:59:48Z", "12 s ago"),
        ("2027-01-15T08:03:30Z", "in 3 min"),
        ("2027-01-15T05:00:00Z", "3 h ago"),
        ("2027-01-13T07:00:00Z", "2 d ago"),
    ],
)
async def test_age(call_js: CallJs, time: str, text: str) -> None:
    assert await call_js("format.js", "formatAge", time, NOW) == text


async def test_time_is_in_the_time_zone_of_the_user(call_js: CallJs) -> None:
    assert await call_js("format.js", "formatTime", "2027-01-15T08:00:05Z") == "2027-01-15 09:00:05"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1_023, "1023 B"), (1_536, "1.5 KiB"), (5 * 2**40, "5.0 TiB"), (2**60, "1048576.0 TiB")],
)
async def test_bytes(call_js: CallJs, count: int, text: str) -> None:
    assert await call_js("format.js", "formatBytes", count) == text


async def test_count_and_noun(call_js: CallJs) -> None:
    assert await call_js("format.js", "formatNoun", 1, "job") == "1 job"
    assert await call_js("format.js", "formatNoun", 12_345, "job") == "12,345 jobs"
