"""A server with standbys needs one that is synchronous, and a short wal_sender_timeout."""

import pytest

from common.postgres.standby_check import NAMES, SENDER_TIMEOUT, StandbySettings, find_unsafe_settings


@pytest.mark.parametrize(
    ("standbys", "names", "timeout", "can_fail_over", "unsafe"),
    [
        (0, "", 60_000, False, []),
        (0, "", 60_000, True, [NAMES, SENDER_TIMEOUT]),
        (1, "", 5000, False, [NAMES]),
        (1, " ", 5000, False, [NAMES]),
        (1, "*", 60_000, False, [SENDER_TIMEOUT]),
        (1, "*", 0, True, [SENDER_TIMEOUT]),
        (1, "*", 15_000, True, [SENDER_TIMEOUT]),
        (1, "*", 14_999, True, []),
        (0, '"pg-2"', 5000, True, []),
    ],
)
def test_what_is_unsafe_is_named(
    standbys: int, names: str, timeout: int, can_fail_over: bool, unsafe: list[str]
) -> None:
    found = find_unsafe_settings(StandbySettings(standbys, names, timeout), can_fail_over=can_fail_over)
    assert list(found) == unsafe
    assert all(f"set {setting}" in text for setting, text in found.items())


@pytest.mark.parametrize(("timeout", "shown"), [(0, "is off"), (60_000, "is 60 s")])
def test_the_timeout_is_shown(timeout: int, shown: str) -> None:
    found = find_unsafe_settings(StandbySettings(1, "*", timeout), can_fail_over=False)
    assert found[SENDER_TIMEOUT].startswith(shown)
