"""What one party leaves to the others."""

import pytest

from common.fair_budget import FairBudget

TOTAL = 2800


@pytest.mark.parametrize(("parties", "each"), [(1, 2100), (2, 1200), (3, 840)])
def test_greedy_parties_share_equally_and_leave_room(parties: int, each: int) -> None:
    budget: FairBudget[int] = FairBudget(TOTAL)
    while any(budget.room(party) for party in range(parties)):
        for party in range(parties):
            budget.take(party, min(1, budget.room(party)))
    assert all(abs(budget.held(party) - each) <= parties for party in range(parties))
    assert budget.room(-1) >= TOTAL // (3 * parties + 1) // 2
    assert budget.largest == 2100


def test_what_is_given_back_is_free_again() -> None:
    budget: FairBudget[str] = FairBudget(TOTAL)
    budget.take("a", 2000)
    budget.take("a", -2000)
    assert (budget.free, budget.held("a"), budget.room("a")) == (TOTAL, 0, 2100)


def test_a_smaller_share_leaves_more() -> None:
    budget: FairBudget[str] = FairBudget(TOTAL, share=1)
    assert (budget.largest, budget.room("a")) == (1400, 1400)
    budget.take("a", 700)
    assert (budget.room("a"), budget.room("b")) == (700, 1050)
