"""Knows which models have limits, and wakes up their waiting jobs when a running one ends.

A claim of a model without limits looks at nothing more than before.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterable

from common.errors import Unavailable
from common.postgres.batcher import Batcher
from common.rabbitmq.wake_ups import WakeUp
from common.telemetry.logs import Log
from common.telemetry.outage import Outage
from services.dispatcher.claims.store import Limits, LimitStore

READ_SECONDS = 1.0  # until a change by an operator takes effect

log = Log("limits")


class RunLimits:
    """The limits that operators have set, at most about a second old."""

    def __init__(self, store: LimitStore, announce: Callable[[Iterable[WakeUp]], object]) -> None:
        """`announce` publishes wake-ups."""
        self._store = store
        self._announce = announce
        self._limits: Limits | None = None
        self._outage = Outage()
        self._ends: Batcher[str, None] = Batcher(self._announce_next, name="limits")
        self._announcing: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Read the limits every second, until cancelled."""
        while True:
            with self._outage.tolerate("limits.database_unavailable", log):
                await self._read()
            await asyncio.sleep(READ_SECONDS)

    async def get(self) -> Limits:
        """Return the limits. Raises Unavailable before the first read."""
        return self._limits or await self._read()

    async def _read(self) -> Limits:
        self._limits = await self._store.list_limits()
        return self._limits

    def note_end(self, model: str) -> None:
        """Let the next job of a model with limits start. Its own wake-up may have come while there was no room."""
        if self._limits is not None and model in self._limits.models:
            self.wake_next(model)

    def wake_next(self, model: str) -> None:
        """Announce the next job of each priority."""
        task = asyncio.create_task(self._wake_next(model))
        self._announcing.add(task)
        task.add_done_callback(self._announcing.discard)

    async def _wake_next(self, model: str) -> None:
        with contextlib.suppress(Unavailable):  # the reconciler finds the jobs
            await self._ends.submit(model)

    async def _announce_next(self, models: list[str]) -> list[None]:
        """Announce a job of each priority for each job that ended."""
        for model, ended in Counter(models).items():
            self._announce(await self._store.find_next_jobs(model, ended))
        return [None] * len(models)
