"""The close codes of a WebSocket that ends without an error."""

import warnings
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from litestar import WebSocket

from services.gateway.events.history import Event

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of Litestar's parameters
    from services.gateway.events.websocket import send_messages

BODY = b'{"type":"%b","timestamp":"2026-01-01T00:00:00.000Z","data":{}}'


async def follow(*types: str) -> AsyncGenerator[Event | None, None]:
    for number, name in enumerate(types):
        yield Event(f"{number}.0", name, BODY % name.encode())
        yield None


@pytest.mark.parametrize(
    ("types", "was_over", "code"),
    [
        (("job.queued", "job.succeeded"), False, 1000),
        ((), True, 1000),  # the client has seen the end
        (("job.queued", "job.started"), False, 1013),  # an hour is over, or the gateway stops
        ((), False, 1013),
        (("job.failed", "job.queued"), True, 1013),  # it was retried
    ],
    ids=["ended", "had ended", "interrupted", "nothing new", "retried"],
)
async def test_only_the_end_of_the_job_is_a_normal_closure(types: tuple[str, ...], was_over: bool, code: int) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    socket: WebSocket[Any, Any, Any] = WebSocket({"type": "websocket"}, receive, send)  # type: ignore[arg-type]
    await socket.accept()
    await send_messages(socket, "job_1", follow(*types), was_over)
    assert [message["type"] for message in sent] == [
        "websocket.accept",
        *["websocket.send"] * len(types),
        "websocket.close",
    ]
    assert sent[-1]["code"] == code
