"""Whether a client is still there: who has gone away is waited for no longer."""

import asyncio
from collections.abc import Coroutine
from typing import Any

GONE = ("http.disconnect", "websocket.disconnect")


async def while_present(receive: Any, work: Coroutine[Any, Any, None]) -> None:
    """Does the work, or gives it up once the client is gone; `receive` is ASGI's, with only that left to read."""
    tasks = {asyncio.create_task(work), asyncio.create_task(await_departure(receive))}
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)  # what the work holds is given back before the request ends


async def await_departure(receive: Any) -> None:
    while (await receive())["type"] not in GONE:
        continue
