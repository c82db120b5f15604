"""Saves quarantines by server and model."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from common.postgres import sql
from common.postgres.database import Database

QUERIES = sql.load("services.dispatcher.quarantines")


class SavedQuarantine(NamedTuple):
    """The last quarantine of a model. `number` counts them.

    `holds`: it is not over. `reloads`: a dispatcher reloads the model, or died while it did.
    """

    model: str
    number: int
    holds: bool
    reloads: bool


class QuarantineStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, server: str, models: Collection[str]) -> None:
        await self._database.fetch(QUERIES["begin_quarantines"], server, sorted(models))

    async def end(self, server: str, numbers: Mapping[str, int]) -> None:
        """End the quarantines of models, each only if its number is still the last."""
        await self._database.fetch(QUERIES["end_quarantines"], server, list(numbers), list(numbers.values()))

    async def list_all(self, server: str) -> list[SavedQuarantine]:
        """Return the last quarantine of each model."""
        return [SavedQuarantine(*record) for record in await self._database.fetch(QUERIES["list_quarantines"], server)]

    async def claim_reloads(self, server: str, seconds: float) -> list[str]:
        """Claim, for so long, the reloads that no other dispatcher holds. Return their models."""
        found = await self._database.fetch(QUERIES["claim_reloads"], server, seconds)
        return [record["model"] for record in found]

    async def save_reloads(self, server: str, seconds: Mapping[str, float | None]) -> None:
        """Save for how long no other dispatcher reloads these models. None: they are loaded."""
        await self._database.fetch(QUERIES["save_reloads"], server, list(seconds), list(seconds.values()))
