"""The bytes of an event stream, as clients read them that take every block for an event."""

import warnings
from collections.abc import AsyncGenerator

from services.gateway.events.history import Event

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of Litestar's parameters
    from services.gateway.events.routes import send_events

EVENTS = [Event("0.0", "job.queued", b'{"number":0}'), None, Event("1.0", "job.started", b'{"number":1}'), None, None]


async def follow() -> AsyncGenerator[Event | None, None]:
    for event in EVENTS:
        yield event


async def read_blocks() -> list[dict[str, str]]:
    """Return the fields of each block that ends with a blank line. Comments are no fields."""
    text = b"".join([part async for part in send_events(follow(), job_id="job_1")]).decode()
    *blocks, rest = text.split("\n\n")
    assert set(rest) <= set(":\n")
    lines = [[line.partition(": ") for line in block.splitlines() if not line.startswith(":")] for block in blocks]
    return [{name: value for name, _, value in block} for block in lines]


async def test_each_block_is_an_event_and_the_first_one_has_the_retry_time() -> None:
    """httpx-sse takes a block with `retry` alone for an event, and a blank line after an event with an id too."""
    assert await read_blocks() == [
        {"retry": "1000", "id": "0.0", "event": "job.queued", "data": '{"number":0}'},
        {"id": "1.0", "event": "job.started", "data": '{"number":1}'},
    ]
