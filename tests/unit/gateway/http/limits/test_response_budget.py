"""The memory of all large outputs: it is shared fairly, and clients that are too slow do not keep it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from uuid import UUID

import pytest

from common import ids
from services.gateway.http.limits import response_budget as module
from services.gateway.http.limits.response_budget import ResponseBudget
from services.gateway.http.problems import Problem
from tests.unit.clock import LATE

A, B, C = (ids.new() for _ in range(3))
Start = Callable[[ResponseBudget, UUID, int], Awaitable["asyncio.Task[int]"]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Starts to acquire. No task outlives its test: it would fail in the middle of another."""
    tasks: list[asyncio.Task[int]] = []

    async def start(budget: ResponseBudget, tenant: UUID, size: int) -> "asyncio.Task[int]":
        tasks.append(asyncio.create_task(budget.acquire(tenant, size)))
        await settle()
        return tasks[-1]

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def budget() -> ResponseBudget:
    return ResponseBudget(100)


async def settle() -> None:
    for _ in range(5):  # turns of the loop
        await asyncio.sleep(0)


async def test_room_is_held_until_it_is_released(budget: ResponseBudget, start: Start) -> None:
    first, second = await start(budget, A, 60), await start(budget, B, 60)
    assert (first.done(), second.done()) == (True, False)
    budget.release(A, first.result())
    assert await second == 60
    budget.release(B, 60)
    assert budget.free == 100


async def test_a_tenant_holds_half_at_most_or_one_response(budget: ResponseBudget, start: Start) -> None:
    assert await budget.acquire(A, 30) == 30
    waits = await start(budget, A, 30)
    assert not waits.done()
    assert await budget.acquire(B, 70) == 70
    budget.release(A, 30)
    assert await waits == 30


async def test_two_greedy_tenants_leave_a_third_to_others(budget: ResponseBudget, start: Start) -> None:
    for tenant in (A, B) * 10:
        await start(budget, tenant, 10)
    assert await asyncio.wait_for(budget.acquire(C, 30), LATE) == 30


async def test_room_goes_to_the_tenant_that_holds_least(budget: ResponseBudget, start: Start) -> None:
    assert await budget.acquire(A, 10) == 10
    assert await budget.acquire(C, 90) == 90
    second, other = await start(budget, A, 40), await start(budget, B, 70)
    budget.release(C, 90)
    await settle()
    assert (second.done(), other.done()) == (False, True)


async def test_a_large_response_in_wait_lets_smaller_ones_pass(budget: ResponseBudget, start: Start) -> None:
    assert await budget.acquire(A, 50) == 50
    large = await start(budget, B, 90)
    assert await budget.acquire(C, 10) == 10
    assert not large.done()


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
    budget: ResponseBudget, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 1)
    await budget.acquire(A, 100)
    waits = await start(budget, A, 1)
    with pytest.raises(Problem):
        await budget.acquire(A, 1)
    other = await start(budget, B, 1)
    assert (waits.done(), other.done()) == (False, False)


async def test_a_cancelled_request_holds_nothing(budget: ResponseBudget, start: Start) -> None:
    await budget.acquire(A, 100)
    waits = await start(budget, B, 50)
    budget.release(A, 100)  # grants the place, in the same turn in which its client disconnects
    waits.cancel()
    await asyncio.wait([waits])
    assert budget.free == 100


async def test_a_place_that_is_left_lets_the_next_go(budget: ResponseBudget, start: Start) -> None:
    await budget.acquire(A, 90)
    large, small = await start(budget, B, 50), await start(budget, B, 10)
    assert not small.done()
    large.cancel()
    await settle()
    assert small.done()


class Client:
    """A client that reads a large message of a tenant until it is cut."""

    def __init__(self, budget: ResponseBudget, tenant: UUID, size: int, read: int = 0) -> None:
        self._task = asyncio.create_task(self._read(budget, tenant, size, read))

    async def _read(self, budget: ResponseBudget, tenant: UUID, size: int, read: int) -> None:
        held = await budget.acquire(tenant, size)
        try:
            async with asyncio.timeout(60) as timeout:
                with budget.watch(tenant, timeout) as sending:
                    sending.expect(read)
                    await asyncio.Event().wait()
        finally:
            budget.release(tenant, held)

    @property
    def is_cut(self) -> bool:
        return self._task.done()

    async def leave(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            assert isinstance(self._task.exception(), TimeoutError)


@pytest.fixture
async def join(budget: ResponseBudget, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[..., Client]]:
    """Lets clients join, of which others expect to have read a byte a second, and one byte more."""
    for name, value in (("CHECK_SECONDS", 0.01), ("GRACE_SECONDS", -1.0), ("PACE", 1)):
        monkeypatch.setattr(module, name, value)
    clients: list[Client] = []

    def join(tenant: UUID, size: int, read: int = 0) -> Client:
        clients.append(Client(budget, tenant, size, read))
        return clients[-1]

    yield join
    for client in clients:
        await client.leave()


@pytest.mark.parametrize("waiting", [A, C], ids=["its own tenant", "another"])
async def test_two_slow_clients_do_not_keep_all_room(
    budget: ResponseBudget, join: Callable[..., Client], waiting: UUID
) -> None:
    clients = join(A, 50), join(B, 50)
    await settle()
    assert budget.free == 0
    assert await asyncio.wait_for(budget.acquire(waiting, 40), LATE) == 40
    assert [client.is_cut for client in clients].count(True) == 1


async def test_a_client_that_keeps_pace_is_not_cut(
    budget: ResponseBudget, join: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    steady, slow = join(A, 60, read=60), join(B, 40)
    await settle()
    assert await asyncio.wait_for(budget.acquire(C, 40), LATE) == 40
    assert (steady.is_cut, slow.is_cut) == (False, True)
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.2)
    with pytest.raises(Problem):
        await budget.acquire(B, 40)
    assert not steady.is_cut


async def test_a_slow_client_stays_while_nobody_waits(budget: ResponseBudget, join: Callable[..., Client]) -> None:
    slow = join(A, 50)
    await settle()
    assert await budget.acquire(B, 50) == 50
    assert not slow.is_cut


async def test_a_tenant_does_not_cut_a_client_of_one_that_holds_less(
    budget: ResponseBudget, join: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.2)
    slow = join(A, 30)
    await settle()
    assert await budget.acquire(B, 60) == 60
    with pytest.raises(Problem):
        await budget.acquire(B, 20)
    assert not slow.is_cut
