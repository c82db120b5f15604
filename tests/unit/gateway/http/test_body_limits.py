"""Limits on all request bodies together."""

from typing import Any

import pytest

from services.gateway.http.body_limits import (
    BodyBudget,
    BodyDeadlines,
    BodyLease,
    BodyLimitsMiddleware,
    find_lease,
)
from services.gateway.http.problems import Problem


@pytest.fixture
def budget() -> BodyBudget:
    return BodyBudget(100, each=60)


def new_lease(budget: BodyBudget) -> BodyLease:
    return BodyLease(budget, BodyDeadlines())


def test_memory_is_reserved_until_none_is_free(budget: BodyBudget) -> None:
    first = new_lease(budget)
    first.reserve("60")
    first.reserve("60")  # a second time for one request changes nothing
    with pytest.raises(Problem) as refused:
        new_lease(budget).reserve("50")
    assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "5"})
    new_lease(budget).reserve("40")
    first.release()
    new_lease(budget).reserve("60")


async def test_a_request_releases_its_memory_even_if_it_fails(budget: BodyBudget) -> None:
    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        find_lease(scope).reserve("60")
        assert budget.free == 40
        raise RuntimeError

    scope: Any = {}
    none: Any = None
    with pytest.raises(RuntimeError):
        await BodyLimitsMiddleware(app, budget, BodyDeadlines())(scope, none, none)
    assert budget.free == 100


@pytest.mark.parametrize("length", [None, "", "-1", "many", "²", "1000"])
def test_a_body_of_unknown_or_absurd_length_counts_as_the_largest_allowed(
    budget: BodyBudget, length: str | None
) -> None:
    new_lease(budget).reserve(length)
    assert budget.free == 40


def test_a_body_that_is_read_as_it_arrives_holds_what_has_arrived(budget: BodyBudget) -> None:
    lease = new_lease(budget)
    lease.grow(50)
    lease.grow(40)
    for asking, status in ((lease, 413), (new_lease(budget), 503)):  # never, and not now
        with pytest.raises(Problem) as refused:
            asking.grow(11)
        assert refused.value.status == status
    lease.grow(10)
    lease.release()
    assert budget.free == 100


def test_memory_that_was_released_early_is_released_once(budget: BodyBudget) -> None:
    lease = new_lease(budget)
    lease.reserve("60")
    lease.release()
    lease.release()
    assert budget.free == 100
