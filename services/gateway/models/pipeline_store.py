"""Reads the pipelines of tenants."""

import re
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import asyncpg
import msgspec

from common.pipelines.references import parse_reference
from common.postgres import sql
from common.postgres.database import Database, to_columns
from common.runs.pipelines import Pipeline, read_pipeline
from common.tensors import Signature

QUERIES = sql.load("services.gateway.models", "pipelines.sql")
VERSION = re.compile(r"[1-9][0-9]{0,8}")
MAX_LISTED = 10_000  # pipelines of a tenant in the catalogue


class PipelineKey(NamedTuple):
    """A pipeline as a request names it. A version of None is the newest one."""

    name: str
    version: str | None = None


class StoredPipeline(NamedTuple):
    """A version of a pipeline, and what it takes."""

    name: str
    version: int
    pipeline: Pipeline
    inputs: Sequence[Signature]
    created_at: datetime

    @property
    def outputs(self) -> list[Signature]:
        """Return what the pipeline declares to make."""
        return [self._find_output(name, text) for name, text in self.pipeline.definition.outputs.items()]

    def _find_output(self, name: str, text: str) -> Signature:
        step, output = parse_reference(text)
        found = next(each for each in self.pipeline.outputs[step or ""] if each.name == output)
        return msgspec.structs.replace(found, name=name)


class PipelineReader:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, tenant: UUID, key: PipelineKey) -> StoredPipeline | None:
        """Return a version, unless there is none, or it was deleted."""
        return (await self.find_many(tenant, [key])).get(key)

    async def find_many(self, tenant: UUID, keys: Collection[PipelineKey]) -> dict[PipelineKey, StoredPipeline]:
        """Return those of the versions that there are."""
        wanted = {(key.name, parse_version(key.version)): key for key in keys if can_be(key)}
        if not wanted:
            return {}
        found = await self._database.fetch(QUERIES["find_pipelines"], tenant, *to_columns([*wanted], 2))
        return {wanted[record["name"], record["asked"]]: read_stored(record) for record in found}

    async def list_newest(self, tenant: UUID, after: str = "", limit: int = MAX_LISTED) -> list[StoredPipeline]:
        """Return the newest versions, by name."""
        found = await self._database.fetch(QUERIES["list_pipelines"], tenant, after, limit)
        return [read_stored(record) for record in found]

    async def list_versions(self, tenant: UUID, name: str) -> list[int]:
        """Return the versions of a pipeline, newest first."""
        found = await self._database.fetch(QUERIES["list_versions"], tenant, name)
        return [record["version"] for record in found]


def read_stored(record: asyncpg.Record) -> StoredPipeline:
    pipeline = read_pipeline(record["definition"], record["outputs"])
    inputs = msgspec.json.decode(record["inputs"], type=list[Signature])
    return StoredPipeline(record["name"], record["version"], pipeline, inputs, record["created_at"])


def can_be(key: PipelineKey) -> bool:
    """Return whether there can be such a pipeline. PostgreSQL text has no NUL. Pure."""
    return "\0" not in key.name and (key.version is None or VERSION.fullmatch(key.version) is not None)


def parse_version(text: str | None) -> int | None:
    return None if text is None else int(text)
