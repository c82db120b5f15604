"""Limits on the large outputs of all responses together."""

import asyncio
from typing import Any

import pytest

from common import ids
from services.gateway.http.limits import response_budget
from services.gateway.http.limits import response_limits as module
from services.gateway.http.limits.response_budget import ResponseBudget
from services.gateway.http.limits.response_limits import (
    ResponseLimitsMiddleware,
    find_response_lease,
)
from services.gateway.http.problems import Problem
from tests.unit.clock import LATE

A, B = ids.new(), ids.new()
NONE: Any = None


@pytest.fixture
def budget() -> ResponseBudget:
    return ResponseBudget(100)


@pytest.fixture
def http() -> Any:
    return {"type": "http"}


async def stay() -> Any:
    """Receive nothing: the client stays connected."""
    await asyncio.Event().wait()


async def test_a_large_body_is_sent_in_slices_and_held_until_the_last(
    http: Any, budget: ResponseBudget, monkeypatch: pytest.MonkeyPatch
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

    await ResponseLimitsMiddleware(app, budget)(http, stay, send)
    assert [(each["body"], each["more_body"]) for each in sent[1:]] == [(b"12", True), (b"34", True), (b"5", False)]
    assert budget.free == 100


async def test_a_request_releases_its_room_even_if_it_fails(http: Any, budget: ResponseBudget) -> None:
    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        await find_response_lease(scope).reserve(A, 60)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        await ResponseLimitsMiddleware(app, budget)(http, stay, NONE)
    assert budget.free == 100


@pytest.mark.parametrize(
    "message",
    [{"type": "http.response.body", "body": b"x", "more_body": True}, {"type": "websocket.send", "text": "x"}],
    ids=["http", "websocket"],
)
async def test_a_client_that_reads_too_slowly_gets_nothing_more(
    http: Any, budget: ResponseBudget, monkeypatch: pytest.MonkeyPatch, message: Any
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

    await asyncio.wait_for(ResponseLimitsMiddleware(app, budget)(http, stay, send), LATE)
    assert (len(sent), budget.free) == (1, 100)


async def test_a_client_that_leaves_while_it_waits_for_room_leaves_the_queue(http: Any, budget: ResponseBudget) -> None:
    await budget.acquire(A, 100)
    gone = asyncio.Event()

    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        with pytest.raises(Problem) as refused:
            await find_response_lease(scope).reserve(B, 60)
        assert refused.value.code == "client_gone"

    async def receive() -> Any:
        await gone.wait()
        return {"type": "http.disconnect"}

    request = asyncio.create_task(ResponseLimitsMiddleware(app, budget)(http, receive, NONE))
    await asyncio.sleep(0)
    gone.set()
    await asyncio.wait_for(request, LATE)
    budget.release(A, 100)
    assert budget.free == 100


async def test_a_client_that_does_not_read_loses_its_room_to_a_response_that_waits(
    http: Any, budget: ResponseBudget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_budget, "CHECK_SECONDS", 0.01)
    monkeypatch.setattr(response_budget, "GRACE_SECONDS", 0.01)
    stalls = asyncio.Event()

    async def app(scope: Any, _receive: Any, send: Any) -> None:
        await find_response_lease(scope).reserve(A, 100)
        await send({"type": "http.response.body", "body": b"12345"})
        assert find_response_lease(scope).is_cut

    async def send(_message: Any) -> None:
        stalls.set()
        await asyncio.Event().wait()

    request = asyncio.create_task(ResponseLimitsMiddleware(app, budget)(http, stay, send))
    await stalls.wait()
    assert await asyncio.wait_for(budget.acquire(B, 60), LATE) == 60
    await request
    assert budget.free == 40


async def test_a_cut_response_ends_although_the_application_waits_for_its_client(
    http: Any, budget: ResponseBudget
) -> None:
    """Litestar waits for a disconnect after the end of a stream. Until then the connection would stay open."""
    sent = []

    async def app(scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start"})
        find_response_lease(scope).cut()
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message["type"])

    await asyncio.wait_for(ResponseLimitsMiddleware(app, budget)(http, stay, send), LATE)
    assert sent == ["http.response.start"]


async def test_a_timeout_of_the_application_is_its_own(http: Any, budget: ResponseBudget) -> None:
    async def app(_scope: Any, _receive: Any, _send: Any) -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        await ResponseLimitsMiddleware(app, budget)(http, stay, NONE)
