"""Detects that the database's clock was set back, and moves due times with it."""

from common.postgres import sql
from common.postgres.database import Connection

QUERIES = sql.load("services.notifier.store", "clock.sql")


async def measure_clock_setback(connection: Connection) -> float:
    """Save the database's time. Return the seconds it lies behind the latest saved time."""
    setback: float = await connection.fetchval(QUERIES["measure_clock_setback"])
    return setback


async def move_due_times_back(connection: Connection, seconds: float, lease: float, timeout: float) -> None:
    """Move due times back. No claim then lasts longer than `lease` seconds."""
    await connection.execute(QUERIES["move_due_times_back"], seconds, lease, timeout=timeout)
