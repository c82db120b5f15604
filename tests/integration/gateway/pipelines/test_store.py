"""Versions of pipelines: each is stored once, and stays for the runs that have it."""

import asyncio
from typing import Any
from uuid import UUID

import msgspec
import pytest

from common import ids
from common.pipelines.definition import PipelineDefinition
from common.postgres.database import Database
from common.runs.pipelines import Pipelines
from services.gateway.auth.store import Key
from services.gateway.models.pipeline_store import PipelineKey, PipelineReader
from services.gateway.pipelines.store import MAX_VERSIONS, NewPipeline, PipelineWriter, StoredVersion
from tests.integration.jobs import add_tenant
from tests.unit.gateway.stored_pipelines import DEFINITION, INPUTS, OUTPUTS

NEWEST = PipelineKey("chain")


class Pipelined:
    """The pipelines of a tenant."""

    def __init__(self, database: Database, tenant: UUID) -> None:
        self.database = database
        self.tenant = tenant
        self.caller = Key(ids.new(), tenant)
        self.writer = PipelineWriter(database)
        self.reader = PipelineReader(database)

    async def store(self, name: str = "chain", timeout: float = 60.0, limit: int = MAX_VERSIONS) -> StoredVersion:
        first: dict[str, Any] = DEFINITION["steps"]["first"] | {"timeout": timeout}
        definition = DEFINITION | {"steps": DEFINITION["steps"] | {"first": first}}
        stored = msgspec.convert(definition, PipelineDefinition)
        added = await self.writer.add(self.caller, NewPipeline(name, stored, INPUTS, OUTPUTS), limit)
        assert added is not None, "the tenant may have no more versions"
        return added

    async def read_timeout(self, version: str | None = None) -> float | None:
        found = await self.reader.find(self.tenant, PipelineKey("chain", version))
        return None if found is None else found.pipeline.definition.steps["first"].timeout


@pytest.fixture
def pipelined(database: Database, tenant: UUID) -> Pipelined:
    return Pipelined(database, tenant)


async def test_a_new_definition_is_a_new_version_and_the_same_one_is_not(pipelined: Pipelined) -> None:
    first = await pipelined.store()
    assert (first.version, first.added) == (1, True)
    assert await pipelined.store() == first._replace(added=False)
    assert (await pipelined.store(timeout=61.0)).version == 2
    assert (await pipelined.store()).version == 3  # it is not the newest one any more
    assert await pipelined.reader.list_versions(pipelined.tenant, "chain") == [3, 2, 1]
    assert [await pipelined.read_timeout(version) for version in (None, "1", "2", "4")] == [60.0, 60.0, 61.0, None]
    assert await pipelined.database.fetch("SELECT FROM audit_log WHERE target = 'chain'") != []


async def test_what_is_stored_is_read(pipelined: Pipelined) -> None:
    await pipelined.store()
    found = await pipelined.reader.find(pipelined.tenant, NEWEST)
    assert found is not None
    assert (found.name, found.version, found.inputs, found.pipeline.outputs) == ("chain", 1, INPUTS, OUTPUTS)
    other = await add_tenant(pipelined.database, "stranger")
    assert await pipelined.reader.find(other, NEWEST) is None


async def test_many_are_read_at_once(pipelined: Pipelined) -> None:
    await pipelined.store()
    await pipelined.store("other")
    keys = [NEWEST, PipelineKey("chain", "1"), PipelineKey("chain", "2"), PipelineKey("other"), PipelineKey("none")]
    found = await pipelined.reader.find_many(pipelined.tenant, keys)
    assert {key: stored.name for key, stored in found.items()} == {
        NEWEST: "chain",
        PipelineKey("chain", "1"): "chain",
        PipelineKey("other"): "other",
    }


async def test_a_deleted_pipeline_is_gone_but_its_runs_still_read_it(pipelined: Pipelined) -> None:
    await pipelined.store()
    await pipelined.store(timeout=61.0)
    assert await pipelined.writer.delete(pipelined.caller, "chain")
    assert not await pipelined.writer.delete(pipelined.caller, "chain")
    assert [await pipelined.read_timeout(version) for version in (None, "1", "2")] == [None] * 3
    read = await Pipelines().find(pipelined.database, pipelined.tenant, "chain", 1)
    assert read.definition.steps["first"].timeout == 60.0
    assert (await pipelined.store(timeout=61.0)).version == 3  # a number is used once


async def test_a_list_has_the_newest_versions_by_name(pipelined: Pipelined) -> None:
    for name in ("c", "a", "b"):
        await pipelined.store(name)
    await pipelined.store("b", timeout=61.0)
    found = await pipelined.reader.list_newest(pipelined.tenant)
    assert [(each.name, each.version) for each in found] == [("a", 1), ("b", 2), ("c", 1)]
    page = await pipelined.reader.list_newest(pipelined.tenant, "a", 1)
    assert [each.name for each in page] == ["b"]


async def test_two_calls_at_once_store_two_versions(pipelined: Pipelined) -> None:
    stored = await asyncio.gather(*(pipelined.store(timeout=60.0 + number) for number in range(4)))
    assert sorted(each.version for each in stored) == [1, 2, 3, 4]


async def test_a_tenant_has_so_many_versions_and_no_more(pipelined: Pipelined) -> None:
    first = await pipelined.store(limit=2)
    await pipelined.writer.delete(pipelined.caller, "chain")
    second = await pipelined.store(limit=2)
    with pytest.raises(AssertionError, match="no more versions"):
        await pipelined.store("other", limit=2)
    assert await pipelined.store(limit=2) == second._replace(added=False)
    assert (first.version, second.version) == (1, 2)
