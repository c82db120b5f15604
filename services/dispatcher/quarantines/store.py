"""Saves quarantines by server and model."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from common.postgres import sql
from common.postgres.database import Database

QUERIES = sql.load("services.dispatcher.quarantines")


class SavedQuarantine(NamedTuple):
    """The last quarantine of a model. `number` counts them. `holds`: it is not over."""

    model: str
    number: int
    holds: bool


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

    async def claim_reloads(self, server: str) -> list[str]:
        """Return models in quarantine that no other dispatcher has tried to reload for a minute."""
        return [record["model"] for record in await self._database.fetch(QUERIES["claim_reloads"], server)]
