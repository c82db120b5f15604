"""The command that compares the object store with the database, on a local folder and on S3."""

import asyncio
import os
import sys
from collections.abc import AsyncIterable, AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import msgspec
import pytest

from common import ids
from common.errors import CharoniaError
from common.object_store.keys import file_key
from common.object_store.store import ObjectInfo, ObjectStore
from common.postgres.database import Database
from common.postgres.migrate import migrate
from common.postgres.roles import parse_passwords
from deploy.local.servers.postgres import connect_as, role_passwords
from deploy.local.settings import ROOT
from services.gateway.commands.check_files import __main__ as check_files
from services.gateway.commands.check_files.check import FileCheck, Finding, Seen
from services.gateway.commands.check_files.store import FileCheckStore
from tests.integration.common.object_store.conftest import Place
from tests.integration.common.object_store.streams import list_keys, stream
from tests.integration.jobs import submit
from tests.integration.places import BOTH

NOW = timedelta(0)
ADD = """
INSERT INTO files (id, tenant_id, status, content_type, size, sha256, kept, created_at, expires_at, writable_until)
VALUES ($1, $2, $3, 'text/plain', $4, '', 60, now() - $5::interval, now() + interval '1 day', now() + $6::interval)
"""
ORPHAN, LOST, WRONG = "object_without_file", "file_without_object", "wrong_size"


class World(NamedTuple):
    """A store and a database. All objects of a test are young, so its checks look at objects of any age."""

    database: Database
    objects: ObjectStore
    tenant: UUID

    async def add(
        self,
        content: bytes | None = b"content",
        size: int | None = 7,
        *,
        status: str = "ready",
        age: timedelta = timedelta(hours=2),
        writable: timedelta | None = None,
    ) -> str:
        """Add an object, unless `content` is None, and a file, unless `size` is None. Return the key."""
        file = ids.new()
        if size is not None:
            await self.database.fetch(ADD, file, self.tenant, status, size, age, writable)
        if content is not None:
            await self.objects.put(file_key(self.tenant, file), stream(content))
        return file_key(self.tenant, file)

    def open(self, orphan_age: timedelta = NOW) -> FileCheck:
        return FileCheck(FileCheckStore(self.database), self.objects, orphan_age)

    async def list_statuses(self) -> dict[str, str]:
        rows = await self.database.fetch("SELECT id, tenant_id, status FROM files")
        return {file_key(row["tenant_id"], row["id"]): row["status"] for row in rows}

    async def remove(self, key: str) -> None:
        """Delete an object and its row, as a sweeper does."""
        file = UUID(key.split("/")[1])
        await self.database.fetch("UPDATE files SET status = 'deleting' WHERE id = $1", file)
        await self.objects.delete([key])
        await self.database.fetch("DELETE FROM files WHERE id = $1", file)


@pytest.fixture
def world(database: Database, store: ObjectStore, tenant: UUID) -> World:
    return World(database, store, tenant)


@pytest.fixture
async def operator_url(database_url: str) -> str:
    """The database with the rights of operators."""
    await migrate(database_url, parse_passwords(role_passwords(database_url).split(",")))
    return connect_as("operator", database_url)


async def run(check: FileCheck, *options: str) -> int:
    return await check_files.compare(check, check_files.parse([*options, "--json"]))


async def find(check: FileCheck) -> dict[str, str]:
    """Return what is wrong, by key."""
    return {each.key: each.problem async for page in check.find(Seen()) for each in page}


async def test_nothing_is_wrong(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    for status in ("ready", "uploading", "deleting"):
        await world.add(status=status)
        await world.add(None if status != "ready" else b"content", status=status)
    assert await run(world.open(), "--fix") == check_files.CLEAN
    assert capsys.readouterr().out == '{"objects":4,"other_objects":0,"files":2,"findings":0,"mended":0}\n'


@BOTH
async def test_each_kind_of_finding_is_found_and_mended(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    good, orphan = await world.add(), await world.add(size=None)
    lost, wrong = await world.add(None), await world.add(b"other")
    await world.objects.put("of/something/else", stream(b""))
    expected = {orphan: ORPHAN, lost: LOST, wrong: WRONG}
    assert await find(world.open()) == expected
    assert await run(world.open()) == check_files.FINDINGS
    *shown, summary = capsys.readouterr().out.splitlines()
    found = {each.key: each for each in (msgspec.json.decode(line, type=Finding) for line in shown)}
    assert {key: each.problem for key, each in found.items()} == expected
    assert [(found[key].size, found[key].expected) for key in expected] == [(7, None), (None, 7), (5, 7)]
    assert summary == '{"objects":3,"other_objects":1,"files":3,"findings":3,"mended":0}'
    assert await find(world.open()) == expected  # looking changes nothing

    assert await run(world.open(), "--fix") == check_files.FINDINGS
    assert capsys.readouterr().out.endswith('"findings":3,"mended":2}\n')
    assert await list_keys(world.objects) == sorted([good, wrong, "of/something/else"])
    assert await world.list_statuses() == {good: "ready", lost: "deleting", wrong: "ready"}
    assert await find(world.open()) == {wrong: WRONG}


async def test_what_is_young_or_being_written_is_left_alone(world: World) -> None:
    await world.add()
    await world.add(size=None)
    await world.add(None, age=timedelta(minutes=59))
    await world.add(None, writable=timedelta(minutes=1))
    await world.add(None, status="uploading")
    check = FileCheck(FileCheckStore(world.database), world.objects)
    assert await find(check) == {}


async def test_a_finding_is_looked_at_again_before_it_is_mended(world: World) -> None:
    """Its upload ended, or a restore brought it back."""
    orphan, lost = await world.add(size=None), await world.add(None)
    check = world.open()
    findings = [each async for page in check.find(Seen()) for each in page]
    assert {each.key for each in findings} == {orphan, lost}
    await world.database.fetch(ADD, UUID(orphan.split("/")[1]), world.tenant, "ready", 7, timedelta(hours=2), None)
    await world.objects.put(lost, stream(b"content"))
    assert await check.mend(findings) == []
    assert await world.list_statuses() == {orphan: "ready", lost: "ready"}
    assert await list_keys(world.objects) == sorted([orphan, lost])


async def test_a_deletion_at_the_same_time_is_no_finding(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweeper deletes between the listing and the rows, and between the rows and their objects."""
    listed, looked_up = await world.add(), await world.add()
    await world.add()
    list_pages, list_complete = world.objects.list_pages, FileCheckStore.list_complete

    async def list_then_remove() -> AsyncIterator[list[ObjectInfo]]:
        async for page in list_pages():
            await world.remove(listed)
            yield page

    async def list_files_then_remove(store: FileCheckStore, *values: object) -> object:
        found = await list_complete(store, *values)  # type: ignore[arg-type]
        await world.remove(looked_up)
        return found

    monkeypatch.setattr(world.objects, "list_pages", list_then_remove)
    monkeypatch.setattr(FileCheckStore, "list_complete", list_files_then_remove)
    assert await find(world.open()) == {}


async def test_nothing_is_mended_with_the_store_or_the_database_of_another_stack(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    orphan, lost = await world.add(size=None), await world.add(None)
    with pytest.raises(CharoniaError, match="the store has no object of a file of this database"):
        await run(world.open(), "--fix")
    assert (await list_keys(world.objects), await world.list_statuses()) == ([orphan], {lost: "ready"})
    assert await run(world.open(), "--fix", "--force") == check_files.FINDINGS
    assert (await list_keys(world.objects), await world.list_statuses()) == ([], {lost: "deleting"})


async def test_a_page_of_each_is_held(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.gateway.commands.check_files.check.PAGE", 2)
    monkeypatch.setattr("common.object_store.store.PAGE", 2)
    orphans = [await world.add(size=None) for _ in range(5)]
    lost = [await world.add(None) for _ in range(5)]
    await world.add()
    assert await find(world.open()) == dict.fromkeys(orphans, ORPHAN) | dict.fromkeys(lost, LOST)
    assert max([len(page) async for page in world.open().find(Seen())]) == 2
    assert await run(world.open(), "--fix") == check_files.FINDINGS
    assert await find(world.open()) == {}


class Command:
    """The command as an operator runs it."""

    def __init__(self, database_url: str, store_url: str) -> None:
        own = {"CHARONIA_DATABASE_URL": database_url, "CHARONIA_STORE_URL": store_url}
        self._environment = os.environ | own

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        argv = [sys.executable, "-m", "services.gateway.commands.check_files", *arguments]
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(*argv, cwd=ROOT, env=self._environment, stdout=pipe, stderr=pipe)

    async def run(self, *arguments: str) -> tuple[int | None, str, str]:
        process = await self.start(*arguments)
        out, error = await asyncio.wait_for(process.communicate(), 60)
        return process.returncode, out.decode(), error.decode()


async def read_until(lines: AsyncIterable[bytes], text: str) -> None:
    async with asyncio.timeout(30):
        async for line in lines:
            if text in line.decode():
                return
    raise AssertionError(f"{text} was not printed")


def add_orphans(root: Path, tenant: UUID, count: int) -> None:
    """Write objects as a store does, but without its thousands of syncs, which a slow disk does not end in time."""
    for _ in range(count):
        path = root / file_key(tenant, ids.new())
        path.parent.mkdir(parents=True)
        path.write_bytes(b"content")


def make_old(root: Path) -> None:
    for path in root.rglob("content"):
        os.utime(path, (0, 0))


async def test_it_is_killed_half_way_and_runs_again(
    database: Database, tenant: UUID, folder: Place, operator_url: str
) -> None:
    world = World(database, ObjectStore(folder.url), tenant)
    root, orphans = Path(folder.url.removeprefix("file://")), 2500
    add_orphans(root, tenant, orphans)
    good, lost = await world.add(), [await world.add(None) for _ in range(3)]
    make_old(root)
    command = Command(operator_url, folder.url)
    killed = await command.start("--fix")
    assert killed.stdout is not None
    await read_until(killed.stdout, "deleted: ")
    killed.kill()
    await killed.wait()
    left = await list_keys(world.objects)
    assert 0 < len(left) - 1 < orphans

    code, out, error = await command.run("--fix")
    assert (code, error) == (check_files.FINDINGS, "")
    *_, summary = out.splitlines()
    assert summary.endswith(f"Findings: {len(left) - 1 + 3}. Mended: {len(left) - 1 + 3}.")
    assert await list_keys(world.objects) == [good]
    assert await world.list_statuses() == {good: "ready"} | dict.fromkeys(lost, "deleting")
    world.objects.close()


async def test_what_is_found_is_said_in_words(world: World, place: Place, operator_url: str) -> None:
    lost, wrong = await world.add(None), await world.add(b"other")
    shown = {key: ids.encode(ids.Kind.FILE, UUID(key.split("/")[1])) for key in (lost, wrong)}
    code, out, error = await Command(operator_url, place.url).run()
    assert (code, error) == (check_files.FINDINGS, "")
    assert out.splitlines() == [
        f"file without its object: {lost} ({shown[lost]}) should have 7",
        f"object of another size than its file: {wrong} ({shown[wrong]}) has 5 bytes, should have 7",
        "Looked at 1 objects, and at 2 files. Findings: 2. Mended: 0.",
    ]


@pytest.mark.parametrize(
    ("database", "store"),
    [(None, "s3://missing"), (None, "file:///proc/missing"), ("postgresql://127.0.0.1:1/x", None)],
)
async def test_it_says_when_it_cannot_look(
    operator_url: str, bucket: Place, database: str | None, store: str | None
) -> None:
    code, out, error = await Command(database or operator_url, store or bucket.url).run("--fix")
    assert (code, out) == (check_files.FAILED, "")
    assert error.startswith("check_files: ")


async def test_a_lost_file_of_a_job_is_given_up(world: World) -> None:
    lost, job = await world.add(None), await submit(world.database, world.tenant)
    await world.database.fetch("UPDATE files SET job_id = $1, expires_at = 'infinity'", job)
    good = await world.add()
    assert await run(world.open(), "--fix") == check_files.FINDINGS
    assert await world.list_statuses() == {lost: "deleting", good: "ready"}
