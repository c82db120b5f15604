"""Objects that no row knows are deleted, and no others, whatever happens on the way."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import pytest

from common import ids
from common.errors import StoreUnavailable
from common.object_store.keys import file_key
from common.object_store.store import ObjectStore
from common.postgres.database import Database
from services.dispatcher.maintenance.files import orphans
from services.dispatcher.maintenance.files.store import UnneededFileStore
from tests.integration.common.object_store.streams import list_keys, stream
from tests.integration.files import add_file
from tests.support.s3.server import S3
from tests.support.waiting import eventually

NOW, HOUR = timedelta(0), timedelta(hours=1)
ADD_TENANT = "INSERT INTO tenants (id, name, webhook_secret) VALUES ($1, $2, '')"


class World(NamedTuple):
    """A store and a database. All objects of a test are young, so its sweeps take objects of any age."""

    database: Database
    objects: ObjectStore
    tenant: UUID
    store: UnneededFileStore

    async def add(self, tenant: UUID | None = None) -> str:
        """Add an object without a row, and return its key."""
        key = file_key(tenant or self.tenant, ids.new())
        await self.objects.put(key, stream(b"content"))
        return key

    async def add_tenant(self) -> UUID:
        tenant = ids.new()
        await self.database.fetch(ADD_TENANT, tenant, str(tenant))
        return tenant

    async def sweep(self, min_age: timedelta = NOW) -> None:
        """Make one pass."""
        while await orphans.sweep_tenant(self.store, self.objects, min_age):
            continue


@pytest.fixture
async def world(
    request: pytest.FixtureRequest, database: Database, tenant: UUID, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    monkeypatch.setattr(orphans, "PAGE_SECONDS", 0.0)
    url = (tmp_path / "store").as_uri()
    if getattr(request, "param", "folder") == "s3":
        s3: S3 = request.getfixturevalue("s3")
        bucket = f"orphans-{uuid.uuid4().hex[:8]}"
        s3.create_bucket(bucket)
        url = f"s3://{bucket}/some/prefix"
        for variable, value in s3.environment.items():
            monkeypatch.setenv(variable, value)
    objects = ObjectStore(url, deadline=10.0)
    yield World(database, objects, tenant, UnneededFileStore(database))
    objects.close()


@pytest.mark.parametrize("world", ["folder", "s3"], indirect=True)
async def test_only_objects_without_a_row_are_deleted(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """A bucket may have objects of another stack, and of others."""
    kept = []
    for status in ("ready", "uploading", "deleting"):
        kept.append(file_key(world.tenant, await add_file(world.database, world.tenant, status, seconds=-60.0)))
        await world.objects.put(kept[-1], stream(b"content"))
    names = f"{world.tenant}/notes/content", f"{world.tenant}/{ids.new()}/other", "read.me"
    others = [await world.add(ids.new()), *names]
    for key in others[1:]:
        await world.objects.put(key, stream(b"content"))
    orphan = await world.add()
    assert orphan in await list_keys(world.objects)
    await world.sweep()
    assert await list_keys(world.objects) == sorted(kept + others)
    (record,) = (each for each in caplog.records if each.message == "files.orphans_deleted")
    assert vars(record)["charonia_fields"] == {"count": 1, "bytes": 7, "first": [shown(orphan)]}


async def test_a_file_that_was_replaced_after_its_check_is_checked_again(world: World) -> None:
    """Not every presigned URL signs a length, so a second PUT may end after the check."""
    same, replaced, by_gateway = [await add_file(world.database, world.tenant) for _ in range(3)]
    await world.database.fetch("UPDATE files SET size = 7")
    checked = "UPDATE files SET writable_until = '-infinity' WHERE id = ANY ($1::uuid[])"
    await world.database.fetch(checked, [same, replaced])
    await world.objects.put(file_key(world.tenant, same), stream(b"content"))
    for file in (replaced, by_gateway):
        await world.objects.put(file_key(world.tenant, file), stream(b"another content"))
    await world.sweep(HOUR)
    store = UnneededFileStore(world.database)
    assert await store.list_unchecked(10, 0.0) == []
    assert await world.store.begin_pass(0.0)
    await world.sweep()
    assert [each.id for each in await store.list_unchecked(10, 0.0)] == [replaced]


async def test_what_is_young_is_left_alone(world: World) -> None:
    orphan = await world.add()
    await world.sweep(HOUR)
    assert await list_keys(world.objects) == [orphan]


async def test_a_pass_reads_every_page_of_every_tenant(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("common.object_store.store.PAGE", 2)
    for tenant in (world.tenant, await world.add_tenant(), await world.add_tenant()):
        for _ in range(5):
            await world.add(tenant)
    await world.sweep()
    assert await list_keys(world.objects) == []


async def test_another_leader_goes_on_with_the_next_tenant(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """And with the same one, if the last leader did not end it."""
    tenants = sorted([world.tenant, *[await world.add_tenant() for _ in range(2)]])
    _, second, third = [await world.add(tenant) for tenant in tenants]
    assert await orphans.sweep_tenant(world.store, world.objects, NOW)
    again = await world.add(tenants[0])  # comes with the next pass
    monkeypatch.setattr(orphans, "delete_orphans", fail)
    with pytest.raises(InterruptedError):
        await orphans.sweep_tenant(world.store, world.objects, NOW)
    monkeypatch.undo()
    monkeypatch.setattr(orphans, "PAGE_SECONDS", 0.0)
    assert await list_keys(world.objects) == sorted([again, second, third])
    await world.sweep()
    assert await list_keys(world.objects) == [again]
    assert await world.store.begin_pass(0.0)
    await world.sweep()
    assert await list_keys(world.objects) == []


async def test_a_pass_begins_an_hour_after_the_last_one(world: World) -> None:
    assert await world.store.begin_pass(3600.0)
    assert not await world.store.begin_pass(3600.0)
    await world.database.fetch("UPDATE orphan_sweep SET began_at = now() - interval '1 hour'")
    assert await world.store.begin_pass(3600.0)


async def test_the_loop_sweeps_by_itself(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An outage of the store is logged once, and survived."""
    monkeypatch.setattr(orphans, "MIN_AGE", NOW)
    monkeypatch.setattr(orphans, "REST_SECONDS", 0.01)
    list_pages, failures = world.objects.list_pages, 0
    await world.add()

    def list_after_an_outage(folder: str = "") -> object:
        nonlocal failures
        if folder and failures < 3:
            failures += 1
            raise StoreUnavailable("away")
        return list_pages(folder)

    async def is_empty() -> bool:
        return not await list_keys(world.objects)

    monkeypatch.setattr(world.objects, "list_pages", list_after_an_outage)
    running = asyncio.create_task(orphans.run(world.store, world.objects))
    try:
        await eventually(is_empty, "the orphan is deleted")
    finally:
        running.cancel()
        await asyncio.wait([running])
    assert caplog.messages.count("files.orphan_sweep_failed") == 1


async def fail(*_arguments: object) -> None:
    """Stand for a process that is killed here."""
    raise InterruptedError


def shown(key: str) -> str:
    return ids.encode(ids.Kind.FILE, UUID(key.split("/")[1]))
