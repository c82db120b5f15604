"""Cancels the work for a request when its client disconnects."""

import asyncio
from collections.abc import Coroutine
from typing import Any

DISCONNECTS = ("http.disconnect", "websocket.disconnect")


async def while_connected(receive: Any, work: Coroutine[Any, Any, None]) -> bool:
    """Do the work, or cancel it when the client disconnects. Return whether it was done.

    `receive` is that of ASGI, after the body was read.
    """
    working = asyncio.create_task(work)
    tasks = {working, asyncio.create_task(_await_disconnect(receive))}
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        return working in done
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)  # the work releases what it holds before the request ends


async def _await_disconnect(receive: Any) -> None:
    while (await receive())["type"] not in DISCONNECTS:
        continue
