"""How often something may happen that is not free."""

from common.allowance import Allowance


def test_as_many_a_second_as_allowed_and_none_more() -> None:
    now = 0.0
    allowance = Allowance(3, lambda: now)
    assert [allowance.take() for _ in range(4)] == [True, True, True, False]
    now = 0.4
    assert [allowance.take() for _ in range(2)] == [True, False]
    now = 100.0  # saved up for a second only
    assert [allowance.take() for _ in range(4)] == [True, True, True, False]
