"""Means from Triton's counters."""

import pytest

from services.dispatcher.triton.statistics import RecentTimes, Times, Totals

MODEL = ("echo", "1")


def test_means_are_of_the_requests_since_the_last_reading() -> None:
    times = RecentTimes()
    times.update({MODEL: Totals(0, 0, 0)})
    assert times.means == {}
    times.update({MODEL: Totals(2, 2_000_000, 10_000_000)})
    assert times.means == {MODEL: Times(1.0, 5.0)}
    times.update({MODEL: Totals(3, 9_000_000, 11_000_000)})
    assert times.means == {MODEL: Times(7.0, 1.0)}


def test_the_last_means_stay_while_there_are_no_requests() -> None:
    times = RecentTimes()
    for _ in range(2):
        times.update({MODEL: Totals(1, 1_000_000, 2_000_000)})
        assert times.means == {MODEL: Times(1.0, 2.0)}


@pytest.mark.parametrize("before", [Totals(9, 9_000_000, 9_000_000), Totals(1, 9_000_000, 1), Totals(1, 1, 9_000_000)])
def test_a_model_that_was_loaded_again_counts_from_zero(before: Totals) -> None:
    times = RecentTimes()
    times.update({MODEL: before})
    times.update({MODEL: Totals(2, 6_000_000, 8_000_000)})
    assert times.means == {MODEL: Times(3.0, 4.0)}
