"""Files whose time is over are removed from the object store and the database, whatever happens on the way."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import pytest

from common import ids
from common.object_store.keys import file_key
from common.object_store.store import ObjectStore
from common.postgres.database import Database
from services.dispatcher.maintenance.files import expired_files
from services.dispatcher.maintenance.files.store import UnneededFileStore
from tests.integration.common.object_store.streams import list_keys, stream
from tests.support.s3.server import S3
from tests.support.waiting import eventually

ADD = """
    INSERT INTO files (id, tenant_id, status, content_type, size, sha256, kept, expires_at, writable_until)
    VALUES ($1, $2, $3, 'text/plain', 7, '', 60, now() + $4::interval, now() + $5::interval)
"""


class World(NamedTuple):
    database: Database
    objects: ObjectStore
    tenant: UUID
    store: UnneededFileStore

    async def add(self, seconds: float, status: str = "ready", writable: float | None = None) -> UUID:
        """Add a file that expires in so many seconds."""
        until = None if writable is None else timedelta(seconds=writable)
        file_id = ids.new()
        values = file_id, self.tenant, status, timedelta(seconds=seconds), until
        await self.database.fetch(ADD, *values)
        await self.objects.put(file_key(self.tenant, file_id), stream(b"content"))
        return file_id

    async def list_rows(self) -> set[UUID]:
        return {
            row["id"] for row in await self.database.fetch("SELECT id FROM files WHERE tenant_id = $1", self.tenant)
        }

    async def list_objects(self) -> set[UUID]:
        return {UUID(key.split("/")[1]) for key in await list_keys(self.objects)}

    async def sweep(self) -> int:
        return await expired_files.sweep(self.store, self.objects)

    async def expire(self) -> None:
        await self.database.fetch("UPDATE files SET expires_at = now() WHERE tenant_id = $1", self.tenant)


@pytest.fixture
async def world(
    request: pytest.FixtureRequest, database: Database, tenant: UUID, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    url = (tmp_path / "store").as_uri()
    if getattr(request, "param", "folder") == "s3":
        s3: S3 = request.getfixturevalue("s3")
        url = f"s3://sweep-{uuid.uuid4().hex[:8]}"
        s3.create_bucket(url.removeprefix("s3://"))
        for variable, value in s3.environment.items():
            monkeypatch.setenv(variable, value)
    objects = ObjectStore(url, deadline=10.0)
    yield World(database, objects, tenant, UnneededFileStore(database))
    objects.close()


@pytest.mark.parametrize("world", ["folder", "s3"], indirect=True)
async def test_what_has_expired_is_removed_and_nothing_else(world: World) -> None:
    kept = await world.add(60)
    uploading = await world.add(60, "uploading")
    for status in ("ready", "uploading", "deleting"):
        await world.add(-1, status)
    assert await world.sweep() == 3
    assert await world.list_rows() == await world.list_objects() == {kept, uploading}
    assert await world.sweep() == 0


async def test_what_cannot_be_deleted_holds_up_nothing_else(
    database: Database, tenant: UUID, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    objects = ObjectStore(tmp_path.as_uri())
    world = World(database, objects, tenant, UnneededFileStore(database))
    good, bad, also_good = [await world.add(-1) for _ in range(3)]
    content = tmp_path / file_key(tenant, bad)
    content.unlink()
    (content / "no file").mkdir(parents=True)
    for tries in (1, 2):
        assert await world.sweep() == (3 if tries == 1 else 1)
        assert await world.list_rows() == {bad}
        assert caplog.messages.count("files.not_deleted") == tries
        assert not (tmp_path / file_key(tenant, good)).exists()
        assert not (tmp_path / file_key(tenant, also_good)).exists()
        assert await world.sweep() == 0  # it is tried again in a minute
        await world.expire()
    (content / "no file").rmdir()
    content.rmdir()
    assert await world.sweep() == 1
    assert await world.list_rows() == set()
    objects.close()


async def test_a_deletion_that_was_cut_off_is_finished(world: World) -> None:
    """Before its content was deleted, and after it."""
    for delete in (False, True):
        file_id = await world.add(-1)
        (claimed,) = await world.store.claim(10, 60)
        assert claimed.id == file_id
        if delete:
            await world.objects.delete([file_key(world.tenant, file_id)])
        assert await world.sweep() == 0  # it is the other sweeper's for a minute
        await world.expire()
        assert await world.sweep() == 1
        assert await world.list_rows() == await world.list_objects() == set()


async def test_a_row_stays_while_a_presigned_url_may_write_the_object(world: World) -> None:
    file_id = await world.add(-1, "deleting", writable=60)
    assert await world.sweep() == 1
    assert (await world.list_rows(), await world.list_objects()) == ({file_id}, set())
    await world.objects.put(file_key(world.tenant, file_id), stream(b"again"))
    past = "UPDATE files SET expires_at = now(), writable_until = now() WHERE id = $1"
    await world.database.fetch(past, file_id)
    assert await world.sweep() == 1
    assert await world.list_rows() == await world.list_objects() == set()


async def test_a_file_that_a_presigned_url_has_replaced_by_another_size_expires(world: World) -> None:
    checkable = -expired_files.CHECK_AFTER - 60
    same, missing = await world.add(60, writable=checkable), await world.add(60, writable=checkable)
    replaced, still_written = await world.add(60, writable=checkable), await world.add(60, writable=-60)
    await world.objects.delete([file_key(world.tenant, missing)])
    for file_id in (replaced, still_written):
        await world.objects.put(file_key(world.tenant, file_id), stream(b"more than announced"))
    assert await expired_files.check_sizes(world.store, world.objects) == 3
    assert await expired_files.check_sizes(world.store, world.objects) == 0  # each is read once
    assert await world.sweep() == 1
    assert await world.list_rows() == {same, missing, still_written}
    assert await world.list_objects() == {same, still_written}


async def test_two_sweepers_share_the_files(world: World) -> None:
    for _ in range(20):
        await world.add(-1)
    assert sum(await asyncio.gather(world.sweep(), world.sweep())) == 20
    assert await world.list_rows() == await world.list_objects() == set()


async def test_parts_of_a_killed_upload_are_removed_with_it(database: Database, tenant: UUID, tmp_path: Path) -> None:
    objects = ObjectStore(tmp_path.as_uri())
    world = World(database, objects, tenant, UnneededFileStore(database))
    file_id = await world.add(-1, "uploading")
    folder = (tmp_path / file_key(tenant, file_id)).parent
    (folder / "content").rename(folder / "content#1")
    assert await world.sweep() == 1
    assert not folder.parent.exists()
    objects.close()


async def test_an_outage_is_logged_once_and_survived(
    database: Database, tenant: UUID, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(expired_files, "REST_SECONDS", 0.01)
    monkeypatch.setattr(expired_files, "RETRY_SECONDS", 0.01)
    root, away = tmp_path / "store", tmp_path / "away"
    objects = ObjectStore(root.as_uri())
    world = World(database, objects, tenant, UnneededFileStore(database))
    await world.add(-1)
    root.rename(away)
    root.write_text("no folder")
    attempts: set[object] = set()

    async def has_tried() -> bool:
        attempts.update(row["expires_at"] for row in await database.fetch("SELECT expires_at FROM files"))
        return len(attempts) > 3

    async def is_empty() -> bool:
        return not await world.list_rows()

    running = asyncio.create_task(expired_files.run(world.store, objects))
    await eventually(has_tried, "several sweeps have failed")
    root.unlink()
    away.rename(root)
    await eventually(is_empty, "the file is removed")
    running.cancel()
    await asyncio.wait([running])
    objects.close()
    assert caplog.messages.count("files.sweep_failed") == 1
