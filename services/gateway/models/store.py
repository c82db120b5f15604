"""The SQL statements about models, one function each."""

import asyncpg
import msgspec

from common.postgres import sql
from common.postgres.database import Database
from common.tensors import Signature

QUERIES = sql.load("services.gateway.models")


class ModelVersion(msgspec.Struct, frozen=True):
    """A row of the catalogue; shapes include the batch dimension.

    No Triton has ever served a version that is not `declared`, so its inputs are unknown. `reason` says why a version
    does not run; None: it runs, or no dispatcher knows.
    """

    name: str
    version: str
    ready: bool
    decoupled: bool
    max_batch_size: int
    inputs: list[Signature]
    outputs: list[Signature]
    max_running: int | None = None
    max_running_per_tenant: int | None = None
    paused: bool = False
    declared: bool = True
    reason: str | None = None


class ModelStore:
    """The catalogue that the dispatchers maintain, and the depth of each model's queue."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_models(self) -> list[ModelVersion]:
        """Return every version of every model."""
        return [read_model(record) for record in await self._database.fetch(QUERIES["list_models"])]

    async def count_queued(self) -> dict[tuple[str, str], int]:
        """Count waiting jobs by (model, priority)."""
        found = await self._database.fetch(QUERIES["count_queued"])
        return {(record["model"], record["priority"]): record["jobs"] for record in found}


def read_model(record: asyncpg.Record) -> ModelVersion:
    inputs = msgspec.json.decode(record["inputs"], type=list[Signature])
    outputs = msgspec.json.decode(record["outputs"], type=list[Signature])
    return ModelVersion(
        *(record["name"], record["version"], record["ready"], record["decoupled"], record["max_batch_size"]),
        *(inputs, outputs, record["max_running"], record["max_running_per_tenant"], record["paused"]),
        *(record["declared"], record["reason"]),
    )
