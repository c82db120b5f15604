"""The bound on all bodies together."""

from typing import Any

import pytest

from services.gateway.budget import Budget
from services.gateway.errors import Problem


async def test_room_is_given_out_until_there_is_none_and_given_back_at_the_end() -> None:
    budget = Budget(100, each=60)
    first: dict[str, Any] = {}
    budget.take(first, "60")
    budget.take(first, "60")  # asked twice for one request, it is held once
    with pytest.raises(Problem) as refused:
        budget.take({}, "50")
    assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "5"})
    budget.take({}, "40")

    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        await budget.guard(app)(first, None, None)
    budget.take({}, "60")


@pytest.mark.parametrize("length", [None, "", "-1", "many", "²", "1000"])
def test_a_body_of_unknown_or_absurd_length_counts_as_the_largest_allowed(length: str | None) -> None:
    budget = Budget(100, each=60)
    budget.take({}, length)
    assert budget.left == 40


async def test_a_body_that_is_read_as_it_arrives_takes_room_as_it_grows() -> None:
    budget = Budget(100, each=60)
    scope: dict[str, Any] = {}
    budget.grow(scope, 50)
    budget.grow(scope, 40)
    for asking, status in ((scope, 413), ({}, 503)):  # never, and not now
        with pytest.raises(Problem) as refused:
            budget.grow(asking, 11)
        assert refused.value.status == status
    budget.grow(scope, 10)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        pass

    await budget.guard(app)(scope, None, None)
    assert budget.left == 100


def test_room_that_was_given_back_early_is_given_back_once() -> None:
    budget, scope = Budget(100, each=60), dict[str, Any]()
    budget.take(scope, "60")
    budget.release(scope)
    budget.release(scope)
    assert budget.left == 100
