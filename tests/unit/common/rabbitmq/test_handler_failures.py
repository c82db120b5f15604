"""Counting failures of handlers."""

from common.rabbitmq import handler_failures
from common.rabbitmq.handler_failures import FailureCounter


def test_each_message_has_a_count_of_its_own() -> None:
    counted = FailureCounter()
    assert [counted.add(message_id) for message_id in ("a", "b", "a", "a", "b")] == [1, 1, 2, 3, 2]


def test_the_message_that_failed_longest_ago_is_forgotten() -> None:
    counted = FailureCounter()
    for number in range(handler_failures.MAX_MESSAGES):
        counted.add(str(number))
    counted.add("0")
    counted.add("one more")
    assert len(counted) == handler_failures.MAX_MESSAGES
    assert (counted.add("0"), counted.add("1")) == (3, 1)
