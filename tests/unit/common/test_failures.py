"""Counting what broke."""

from common import failures
from common.failures import Failures


def test_each_message_has_a_count_of_its_own() -> None:
    counted = Failures()
    assert [counted.add(message_id) for message_id in ("a", "b", "a", "a", "b")] == [1, 1, 2, 3, 2]


def test_the_one_that_failed_longest_ago_is_forgotten() -> None:
    counted = Failures()
    for number in range(failures.REMEMBERED):
        counted.add(str(number))
    counted.add("0")
    counted.add("one more")
    assert len(counted.counts) == failures.REMEMBERED
    assert (counted.add("0"), counted.add("1")) == (3, 1)
