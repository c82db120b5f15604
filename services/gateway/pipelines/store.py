"""Stores and deletes pipelines, each with its audit entry. A version never changes."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import asyncpg
import msgspec

from common.pipelines.definition import PipelineDefinition
from common.postgres import sql
from common.postgres.audit_log import Action, AuditEntry, add_entries
from common.postgres.database import Database
from common.tensors import Signature
from services.gateway.auth.store import Key

QUERIES = sql.load("services.gateway.pipelines")
TRIES = 5  # of a version that another call has added at the same time
MAX_VERSIONS = 10_000  # of a tenant; each has some 100 KB at most


class NewPipeline(NamedTuple):
    """A pipeline to store. `outputs` are those of each step."""

    name: str
    definition: PipelineDefinition
    inputs: Sequence[Signature]
    outputs: Mapping[str, Sequence[Signature]]


class StoredVersion(NamedTuple):
    """What a call stored, or found stored."""

    version: int
    created_at: datetime
    added: bool


class PipelineWriter:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, caller: Key, pipeline: NewPipeline, limit: int = MAX_VERSIONS) -> StoredVersion | None:
        """Store a definition as the next version, unless the newest one has it.

        Return None if the tenant has as many versions as it may have. Deleted ones count: runs may refer to them.
        """
        for _ in range(TRIES):
            try:
                return await self._add(caller, pipeline, limit)
            except asyncpg.UniqueViolationError:
                continue
        return await self._add(caller, pipeline, limit)

    async def _add(self, caller: Key, pipeline: NewPipeline, limit: int) -> StoredVersion | None:
        bodies = [msgspec.json.encode(each) for each in pipeline[1:]]
        async with self._database.transaction() as connection:
            record = await connection.fetchrow(QUERIES["add_pipeline"], caller.tenant_id, pipeline.name, *bodies, limit)
            if record is None:
                return None
            stored = StoredVersion(*record.values())
            if stored.added:
                action: Action = "pipeline.created" if stored.version == 1 else "pipeline.updated"
                await add_entries(connection, [make_entry(caller, action, pipeline.name, stored.version)])
        return stored

    async def delete(self, caller: Key, name: str) -> bool:
        """Delete a pipeline with all versions. Return whether there was one. Its runs go on."""
        async with self._database.transaction() as connection:
            found = await connection.fetch(QUERIES["delete_pipeline"], caller.tenant_id, name)
            if found:
                newest = max(record["version"] for record in found)
                await add_entries(connection, [make_entry(caller, "pipeline.deleted", name, newest)])
        return bool(found)


def make_entry(caller: Key, action: Action, name: str, version: int) -> AuditEntry:
    return AuditEntry(caller.tenant_id, caller.actor, action, name, {"version": str(version)})
