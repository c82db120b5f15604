"""Waiting for a condition with a deadline."""

import asyncio
from collections.abc import Awaitable, Callable

from common.postgres.database import Database

BLOCKED = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
DEADLINE = 20.0  # seconds; generous, because a test waits no longer than necessary


async def until(condition: Callable[[], bool | Awaitable[bool]], what: str, seconds: float = DEADLINE) -> None:
    """Return when the condition holds. Fail if it does not hold in time."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        holds = condition()
        if isinstance(holds, Awaitable):
            holds = await holds
        if holds:
            return
        assert loop.time() < deadline, f"not within {seconds:g} s: {what}"
        await asyncio.sleep(0.02)


async def until_blocked(database: Database, statements: int = 1) -> None:
    """Return when so many statements wait for a lock."""

    async def blocked() -> bool:
        return len(await database.fetch(BLOCKED)) >= statements

    await until(blocked, f"{statements} statements wait for a lock")
