"""Limits on the large outputs of all responses together."""

import asyncio
from typing import Any

import pytest

from common import ids
from services.gateway.http import response_limits as module
from services.gateway.http.problems import Problem
from services.gateway.http.response_limits import (
    ResponseBudget,
    ResponseLimitsMiddleware,
    find_response_lease,
)

A, B, C = (ids.new() for _ in range(3))
NONE: Any = None


@pytest.fixture
def budget() -> ResponseBudget:
    return ResponseBudget(100)


async def start(budget: ResponseBudget, tenant: Any, size: int) -> "asyncio.Task[int]":
    task = asyncio.create_task(budget.acquire(tenant, size))
    await settle()
    return task


async def settle() -> None:
    for _ in range(5):  # turns of the loop
        await asyncio.sleep(0)


async def test_room_is_held_until_it_is_released(budget: ResponseBudget) -> None:
    first, second = await start(budget, A, 60), await start(budget, B, 60)
    assert (first.done(), second.done()) == (True, False)
    budget.release(A, first.result())
    assert await second == 60
    budget.release(B, 60)
    assert budget.free == 100


async def test_a_tenant_holds_half_at_most_or_one_response(budget: ResponseBudget) -> None:
    assert await budget.acquire(A, 30) == 30
    waits = await start(budget, A, 30)
    assert not waits.done()
    assert await budget.acquire(B, 70) == 70
    budget.release(A, 30)
    assert await waits == 30


async def test_two_greedy_tenants_leave_a_third_to_others(budget: ResponseBudget) -> None:
    tasks = [await start(budget, tenant, 10) for _ in range(10) for tenant in (A, B)]
    assert await asyncio.wait_for(budget.acquire(C, 30), 5) == 30
    for task in tasks:
        task.cancel()


async def test_room_goes_to_the_tenant_that_holds_least(budget: ResponseBudget) -> None:
    assert await budget.acquire(A, 10) == 10
    assert await budget.acquire(C, 90) == 90
    second, other = await start(budget, A, 40), await start(budget, B, 70)
    budget.release(C, 90)
    await settle()
    assert (second.done(), other.done()) == (False, True)


async def test_a_large_response_in_wait_lets_smaller_ones_pass(budget: ResponseBudget) -> None:
    assert await budget.acquire(A, 50) == 50
    large = await start(budget, B, 90)
    assert await budget.acquire(C, 10) == 10
    assert not large.done()
    large.cancel()


async def test_a_response_over_the_total_goes_alone(budget: ResponseBudget) -> None:
    assert await budget.acquire(A, 1000) == 100


async def test_without_room_in_time_the_answer_says_what_to_do(
    budget: ResponseBudget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.01)
    assert await budget.acquire(A, 100) == 100
    with pytest.raises(Problem, match="try again soon, and read fewer at a time") as refused:
        await budget.acquire(B, 1)
    assert (refused.value.status, refused.value.code) == (503, "overloaded")
    assert refused.value.headers == {"Retry-After": "5"}
    budget.release(A, 100)
    assert await budget.acquire(B, 100) == 100


async def test_a_tenant_has_a_limit_of_waiting_responses(
    budget: ResponseBudget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 1)
    await budget.acquire(A, 100)
    waits = await start(budget, A, 1)
    with pytest.raises(Problem):
        await budget.acquire(A, 1)
    other = await start(budget, B, 1)
    for task in (waits, other):
        assert not task.done()
        task.cancel()


async def test_a_cancelled_request_holds_nothing(budget: ResponseBudget) -> None:
    await budget.acquire(A, 100)
    waits = await start(budget, B, 50)
    budget.release(A, 100)  # grants the place, in the same turn in which its client disconnects
    waits.cancel()
    await asyncio.wait([waits])
    assert budget.free == 100


async def test_a_large_body_is_sent_in_slices_and_held_until_the_last(
    budget: ResponseBudget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SLICE", 2)
    sent: list[dict[str, Any]] = []

    async def app(scope: Any, _receive: Any, send: Any) -> None:
        await find_response_lease(scope).reserve(A, 60)
        await find_response_lease(scope).reserve(A, 60)  # a second time for one request changes nothing
        await send({"type": "http.response.start"})
        await send({"type": "http.response.body", "body": b"12345"})

    async def send(message: Any) -> None:
        assert budget.free == 40
        sent.append(message)

    await ResponseLimitsMiddleware(app, budget)({}, NONE, send)  # type: ignore[arg-type]
    assert [(each["body"], each["more_body"]) for each in sent[1:]] == [(b"12", True), (b"34", True), (b"5", False)]
    assert budget.free == 100


async def test_a_request_releases_its_room_even_if_it_fails(budget: ResponseBudget) -> None:
    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        await find_response_lease(scope).reserve(A, 60)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        await ResponseLimitsMiddleware(app, budget)({}, NONE, NONE)  # type: ignore[arg-type]
    assert budget.free == 100


@pytest.mark.parametrize(
    "message",
    [{"type": "http.response.body", "body": b"x", "more_body": True}, {"type": "websocket.send", "text": "x"}],
    ids=["http", "websocket"],
)
async def test_a_client_that_reads_too_slowly_gets_nothing_more(
    budget: ResponseBudget, monkeypatch: pytest.MonkeyPatch, message: Any
) -> None:
    monkeypatch.setattr(module, "READ_SECONDS", 0.01)
    sent = []

    async def app(scope: Any, _receive: Any, send: Any) -> None:
        await find_response_lease(scope).reserve(A, 60)
        await send(message)
        assert find_response_lease(scope).is_cut
        await send(message)

    async def send(message: Any) -> None:
        sent.append(message)
        await asyncio.Event().wait()

    await asyncio.wait_for(ResponseLimitsMiddleware(app, budget)({}, NONE, send), 5)  # type: ignore[arg-type]
    assert (len(sent), budget.free) == (1, 100)
