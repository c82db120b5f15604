"""Lets the retention of history pass."""

from common.postgres.database import Database
from services.dispatcher.maintenance.history import history
from services.dispatcher.maintenance.history.store import HistoryStore


async def forget(database: Database, *, counted: bool = True) -> int:
    """Begin a generation, and empty all others as if the retention had passed. Return how many were emptied.

    By default the usage of all ended jobs is counted before.
    """
    if counted:
        await database.fetch("UPDATE jobs SET ended_xid = NULL WHERE ended_xid IS NOT NULL")
    store = HistoryStore(database)
    emptied = await history.sweep(store, 0.0)
    await history.release_files(store)
    return emptied
