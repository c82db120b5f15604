"""Says in the database that this dispatcher lives. Clients then see soon that one is dead or frozen."""

import asyncio
import contextlib

from common.errors import Unavailable
from services.dispatcher.sessions.store import SessionStore

LIVENESS_SECONDS = 2.0  # the view served_now counts a dispatcher as gone after four times as long


async def run(store: SessionStore, worker: str) -> None:
    """Say so every LIVENESS_SECONDS, until cancelled."""
    while True:
        with contextlib.suppress(Unavailable):  # other loops log an outage
            await store.note_liveness(worker)
        await asyncio.sleep(LIVENESS_SECONDS)
