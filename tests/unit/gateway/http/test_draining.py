"""A gateway that drains."""

import asyncio
from typing import Any

import msgspec
import pytest

from services.gateway.http.draining import DrainMiddleware, DrainState


async def cut(state: DrainState, *, started: bool, path: str = "/v1/jobs") -> list[Any]:
    """What is sent of a request that is cancelled while it waits."""
    sent: list[Any] = []
    waiting = asyncio.Event()

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        if started:
            await send({"type": "http.response.start", "status": 200})
        waiting.set()
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    none: Any = None
    scope: Any = {"type": "http", "path": path}
    task = asyncio.create_task(DrainMiddleware(app, state)(scope, none, send))
    await waiting.wait()
    task.cancel()
    await task
    return sent


async def test_what_the_grace_cuts_off_is_answered_503() -> None:
    state = DrainState()
    state.start()
    start, body = await cut(state, started=False)
    headers = dict(start["headers"])
    assert (start["status"], headers[b"connection"]) == (503, b"close")
    assert int(headers[b"content-length"]) == len(body["body"])
    assert int(headers[b"retry-after"]) > 0
    problem = msgspec.json.decode(body["body"])
    assert (problem["type"], problem["instance"]) == ("urn:charonia:problem:unavailable", "/v1/jobs")


async def test_a_call_of_the_protocol_is_cut_off_with_an_error_of_the_protocol() -> None:
    state = DrainState()
    state.start()
    start, body = await cut(state, started=False, path="/v2/models/echo/infer")
    assert dict(start["headers"])[b"content-type"] == b"application/json"
    assert msgspec.json.decode(body["body"]).keys() == {"error"}


async def test_an_answer_that_has_begun_is_not_begun_again() -> None:
    state = DrainState()
    state.start()
    with pytest.raises(asyncio.CancelledError):
        await cut(state, started=True)


async def test_a_cancellation_at_any_other_time_is_one() -> None:
    with pytest.raises(asyncio.CancelledError):
        await cut(DrainState(), started=False)
