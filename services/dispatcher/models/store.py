"""Saves the model catalogue."""

from collections.abc import Sequence

import msgspec

from common.postgres import sql
from common.postgres.database import Database, to_columns
from services.dispatcher.triton.client import ModelVersion

QUERIES = sql.load("services.dispatcher.models")


class ModelStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def save_models(self, versions: Sequence[tuple[ModelVersion, bool]]) -> None:
        """Save each version with whether it is ready."""
        rows = [
            (
                *(model.name, model.version, ready, model.decoupled, model.max_batch_size, model.instances),
                *(msgspec.json.encode(model.inputs).decode(), msgspec.json.encode(model.outputs).decode()),
            )
            for model, ready in versions
        ]
        await self._database.fetch(QUERIES["save_models"], *to_columns(rows, 8))

    async def retire_models(self, grace: float) -> list[tuple[str, str]]:
        """Remove versions that no Triton has served for `grace` seconds. Return their names and versions."""
        found = await self._database.fetch(QUERIES["retire_models"], grace)
        return [(record["name"], record["version"]) for record in found]
