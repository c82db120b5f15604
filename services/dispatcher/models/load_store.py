"""Saves which load of each version a Triton runs."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from common.postgres import sql
from common.postgres.database import Database, to_columns
from services.dispatcher.models.loads import Load, SavedLoad
from services.dispatcher.triton.statistics import Model

QUERIES = sql.load("services.dispatcher.models")


class LoadToSave(NamedTuple):
    """A load of a version with its successful requests so far. `before` is what the row has now, if there is one."""

    model: Model
    id: UUID
    before: UUID | None
    executions: int


class LoadStore:
    """The loads in one Triton, which all its dispatchers share."""

    def __init__(self, database: Database, server: str, worker: str) -> None:
        """`server` is the same for one Triton only. `worker` is this dispatcher."""
        self._database = database
        self._server = server
        self._worker = worker

    async def list_all(self) -> dict[Model, SavedLoad]:
        """Return the load of each version."""
        found = await self._database.fetch(QUERIES["list_loads"], self._server, self._worker)
        return {
            (row["name"], row["version"]): SavedLoad(
                Load(row["load_id"], row["loaded_at"]), row["executions"], row["held"], row["is_old"]
            )
            for row in found
        }

    async def save(self, loads: Sequence[LoadToSave]) -> Mapping[Model, Load]:
        """Save loads, except for those whose row changed meanwhile. Return what was saved."""
        rows = [(*load.model, load.id, load.before, load.executions) for load in loads]
        found = await self._database.fetch(QUERIES["save_loads"], self._server, *to_columns(rows, 5), self._worker)
        return {(row["name"], row["version"]): Load(row["load_id"], row["loaded_at"]) for row in found}
