"""A gateway that leaves."""

import asyncio
from typing import Any

import msgspec
import pytest

from services.gateway.rotation import Rotation

SCOPE = {"type": "http"}


async def cut(rotation: Rotation, *, started: bool) -> list[Any]:
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

    task = asyncio.create_task(rotation.guard(app)(SCOPE, None, send))
    await waiting.wait()
    task.cancel()
    await task
    return sent


async def test_what_the_grace_cuts_off_is_answered_503() -> None:
    rotation = Rotation()
    rotation.leave()
    start, body = await cut(rotation, started=False)
    headers = dict(start["headers"])
    assert (start["status"], headers[b"connection"]) == (503, b"close")
    assert int(headers[b"content-length"]) == len(body["body"])
    assert int(headers[b"retry-after"]) > 0
    assert msgspec.json.decode(body["body"])["type"] == "urn:charonia:problem:unavailable"


async def test_an_answer_that_has_begun_is_not_begun_again() -> None:
    rotation = Rotation()
    rotation.leave()
    with pytest.raises(asyncio.CancelledError):
        await cut(rotation, started=True)


async def test_a_cancellation_at_any_other_time_is_one() -> None:
    with pytest.raises(asyncio.CancelledError):
        await cut(Rotation(), started=False)
