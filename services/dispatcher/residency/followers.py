"""Keeps back the jobs of models that are about to be unloaded. Every dispatcher of the Triton does this."""

import asyncio
from collections.abc import Mapping, Sequence

from common.telemetry.logs import Log
from common.telemetry.outage import Outage
from services.dispatcher.models.served_model import ServedModel
from services.dispatcher.residency.rule import Phase
from services.dispatcher.residency.store import ResidencyStore

INTERVAL_SECONDS = 0.25
JOIN_SECONDS = 10.0  # between two records of which Triton this dispatcher has

log = Log("residency")


class Follower:
    def __init__(
        self,
        store: ResidencyStore,
        models: Mapping[str, ServedModel],
        refresh_requested: asyncio.Event,
        patterns: Sequence[str],
        budget: int,
    ) -> None:
        """`models` are those of this dispatcher, and `budget` the bytes for models of its Triton.

        Setting `refresh_requested` makes the catalogue refresh at once.
        """
        self._store = store
        self._models = models
        self._refresh_requested = refresh_requested
        self._patterns = patterns
        self._budget = budget
        self._phases: dict[str, Phase] = {}
        self._joined_at = float("-inf")
        self.joined = asyncio.Event()
        """Set once the database knows which Triton this dispatcher has."""

    async def run(self) -> None:
        """Follow the planner until cancelled. Without the database, what was held back stays so."""
        outage = Outage()
        while True:
            with outage.tolerate("residency.database_unavailable", log):
                await self.follow()
            await asyncio.sleep(INTERVAL_SECONDS)

    async def follow(self) -> None:
        """Hold back models that drain, and say so. Start the jobs of those that no longer do. Raises Unavailable."""
        clock = asyncio.get_running_loop().time
        if clock() - self._joined_at > JOIN_SECONDS:
            await self._store.join(self._patterns, self._budget)
            self._joined_at = clock()
            self.joined.set()
        phases = await self._store.list_phases()
        held = set()
        for name, model in self._models.items():
            if phases.get(name) is Phase.DRAINING:
                if not model.is_draining:
                    model.drain()
                    held.add(name)
            elif model.is_draining:
                model.end_drain()
        if held:
            await self._store.note_drains(held)  # the planner waits for it
        if phases != self._phases:
            self._phases = phases
            self._refresh_requested.set()
