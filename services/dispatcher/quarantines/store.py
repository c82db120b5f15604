"""Saves quarantines by server and model."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from common.postgres import sql
from common.postgres.database import Database, to_columns

QUERIES = sql.load("services.dispatcher.quarantines")


class SavedQuarantine(NamedTuple):
    """The last quarantine of a model. `number` counts them.

    `holds`: it is not over. `reloads`: a dispatcher reloads the model, or died while it did. `executions`: the model's
    count at the stall, if it is known.
    """

    model: str
    number: int
    holds: bool
    reloads: bool
    executions: int | None


class QuarantineStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, server: str, executions: Mapping[str, int | None]) -> None:
        """Begin the quarantines of models. Their counts of executions may be known."""
        await self._database.fetch(QUERIES["begin_quarantines"], server, list(executions), list(executions.values()))

    async def end(self, server: str, numbers: Mapping[str, int], unloaded: Collection[str] = ()) -> None:
        """End the quarantines of models, each only if its number is still the last. Some are `unloaded`."""
        flags = [model in unloaded for model in numbers]
        await self._database.fetch(QUERIES["end_quarantines"], server, list(numbers), list(numbers.values()), flags)

    async def save_executions(self, server: str, counts: Mapping[str, tuple[int, int]]) -> None:
        """Save the number and the count of executions of models in quarantine."""
        rows = [(model, *values) for model, values in counts.items()]
        await self._database.fetch(QUERIES["save_executions"], server, *to_columns(rows, 3))

    async def list_all(self, server: str) -> list[SavedQuarantine]:
        """Return the last quarantine of each model."""
        return [SavedQuarantine(*record) for record in await self._database.fetch(QUERIES["list_quarantines"], server)]

    async def claim_reloads(self, server: str, seconds: float, seen: Collection[str]) -> list[str]:
        """Claim, for so long, the reloads that no other dispatcher holds. Return their models.

        `seen` are those that the caller saw stall. It leaves the others for as long to those that did.
        """
        found = await self._database.fetch(QUERIES["claim_reloads"], server, seconds, list(seen))
        return [record["model"] for record in found]

    async def save_reloads(self, server: str, seconds: Mapping[str, float | None]) -> None:
        """Save for how long no other dispatcher reloads these models. None: they are loaded."""
        await self._database.fetch(QUERIES["save_reloads"], server, list(seconds), list(seconds.values()))
