"""The lines of a file become jobs once, whatever is killed, and only while there is room for them."""

import asyncio
from uuid import UUID

import pytest

from common.errors import DatabaseUnavailable
from common.jobs.submit import JobTimes
from common.object_store.keys import file_key
from common.object_store.store import ObjectStore
from common.postgres.database import Database
from services.gateway.batches.canceler import BatchCanceler
from services.gateway.batches.store import BatchStore
from services.gateway.openai.batches import importer as module
from services.gateway.openai.batches.record import read_record
from services.gateway.openai.batches.source import LineSource
from services.gateway.openai.batches.store import RequestStore, Step
from services.gateway.openai.batches.view import view_batch
from tests.integration.gateway.openai.batches.gateway import Gateway, complete, end_all, line, lines, list_names
from tests.integration.job_actions import new_canceler
from tests.integration.jobs import add_tenant
from tests.integration.world import World


async def test_lines_become_jobs_page_by_page(gateway: Gateway, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEP_LINES", 4)
    numbered = [line(number) for number in range(9)]
    batch = await gateway.create(b"".join([*numbered[:5], b"wrong\n", b"\n", *numbered[5:]]))
    assert await gateway.find(batch) == ("validating", 10, 0, 0)
    assert await gateway.importer.sweep()
    assert await gateway.find(batch) == ("in_progress", 10, 0, 0)
    assert await list_names(world.database, batch) == ["0", "1", "2", "3"]
    assert await complete(world).scan() == 0
    await gateway.import_all()
    assert await list_names(world.database, batch) == [str(number) for number in range(9)]
    assert await gateway.find(batch) == ("in_progress", 10, 0, 1)
    await end_all(world, batch)
    assert await gateway.find(batch) == ("finalizing", 10, 9, 1)
    assert await complete(world).scan() == 1
    assert await gateway.find(batch) == ("completed", 10, 9, 1)
    assert len(world.wake_ups.take()) == 9 + 1


async def test_a_batch_stays_open_while_lines_are_left(gateway: Gateway, world: World) -> None:
    """Also for a maintenance process of the release before, which does not know of lines."""
    batch = await gateway.create(line(1))
    await world.database.fetch("UPDATE batches SET finished_at = now() WHERE id = $1 AND finished_at IS NULL", batch)
    assert await gateway.find(batch) == ("validating", 1, 0, 0)
    await gateway.import_all()
    await end_all(world, batch)
    await world.database.fetch("UPDATE batches SET finished_at = now() WHERE id = $1 AND finished_at IS NULL", batch)
    assert await gateway.find(batch) == ("completed", 1, 1, 0)


class Killed(Exception):
    """The process dies."""


class Dying(RequestStore):
    """Dies before a commit, or after it."""

    def __init__(self, database: Database, *, after: bool) -> None:
        super().__init__(database)
        self._after = after

    async def advance(self, step: Step) -> dict[UUID, JobTimes] | None:
        if self._after:
            await super().advance(step)
        raise Killed


@pytest.mark.parametrize("after", [False, True], ids=["before the commit", "after the commit"])
async def test_a_kill_neither_loses_nor_doubles_a_line(
    gateway: Gateway, world: World, objects: ObjectStore, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    """At each page of the file."""
    monkeypatch.setattr(module, "STEP_LINES", 3)
    batch = await gateway.create(lines(10))
    while await gateway.store.read_unread(batch) is not None:
        dying = Gateway(world, objects)
        dying.importer._store = Dying(world.database, after=after)
        with pytest.raises(Killed):
            await dying.importer.sweep()
        await Gateway(world, objects).importer.sweep()
    assert await list_names(world.database, batch) == [str(number) for number in range(10)]


async def test_two_processes_at_once_import_each_line_once(
    gateway: Gateway, world: World, objects: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STEP_LINES", 7)
    batch = await gateway.create(lines(40))
    await asyncio.gather(*(Gateway(world, objects).import_all() for _ in range(4)))
    await gateway.import_all()
    assert await list_names(world.database, batch) == [str(number) for number in range(40)]


async def test_lines_wait_for_room_and_leave_half_of_the_queue_free(world: World, objects: ObjectStore) -> None:
    gateway = Gateway(world, objects, most=20)
    batch = await gateway.create(b"".join([b"wrong\n", *(line(number) for number in range(15)), b"wrong\n"]))
    assert await gateway.importer.sweep()
    assert await list_names(world.database, batch) == [str(number) for number in range(10)]
    assert not await Gateway(world, objects, most=20).importer.sweep()
    await end_all(world, batch)
    await Gateway(world, objects, most=20).import_all()
    assert await list_names(world.database, batch) == [str(number) for number in range(15)]
    assert await gateway.find(batch) == ("in_progress", 17, 10, 2)


async def test_tenants_take_turns(world: World, objects: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEP_LINES", 2)
    gateway, stranger = Gateway(world, objects), await add_tenant(world.database, "stranger")
    mine = [await gateway.create(lines(10)) for _ in range(3)]
    theirs = await gateway.create(line(1) + line(2), stranger)
    await gateway.importer.sweep()
    assert await list_names(world.database, theirs) == ["1", "2"]
    await gateway.importer.sweep()
    await gateway.importer.sweep()
    assert [await list_names(world.database, batch) for batch in mine] == [["0", "1"]] * 3


async def test_a_canceled_batch_gets_no_more_jobs(
    gateway: Gateway, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STEP_LINES", 4)
    batch = await gateway.create(lines(10))
    await gateway.importer.sweep()
    batches = BatchStore(world.database)
    assert await batches.cancel(batch, world.tenant)
    await gateway.import_all()
    await BatchCanceler(batches, new_canceler(world.database, world.wake_ups, world.changes)).sweep()
    assert await gateway.find(batch) == ("cancelling", 10, 0, 10)
    assert await complete(world).scan() == 1
    assert await gateway.find(batch) == ("cancelled", 10, 0, 10)
    rows = await world.database.fetch("SELECT custom_id, problem FROM batch_items ORDER BY index")
    assert [record["custom_id"] for record in rows] == [str(number) for number in range(10)]
    assert [b"batch_cancelled" in (record["problem"] or b"") for record in rows] == [False] * 4 + [True] * 6


async def test_a_cancel_during_an_import_wins(gateway: Gateway, world: World) -> None:
    """The jobs were checked, but not committed."""
    batch = await gateway.create(line(1))
    unread = await gateway.store.read_unread(batch)
    assert unread is not None
    assert await BatchStore(world.database).cancel(batch, world.tenant)
    page = await LineSource(gateway.objects).read(file_key(world.tenant, unread.input_file), 1000, 0)
    checked = await gateway.importer._check(unread, read_record(unread.request), page.lines)
    assert [each.job is None for each in checked] == [False]
    assert not await gateway.importer._save(unread, checked, None, None)
    assert await list_names(world.database, batch) == []
    await gateway.import_all()
    assert await gateway.find(batch) == ("cancelling", 1, 0, 1)


async def test_lines_that_are_left_when_the_time_is_over_expire(gateway: Gateway, world: World) -> None:
    batch = await gateway.create(lines(3), window="1s")
    await world.database.fetch("UPDATE batches SET expires_at = now()")
    await gateway.import_all()
    assert await gateway.find(batch) == ("finalizing", 3, 0, 3)
    assert await complete(world).scan() == 1
    assert await gateway.find(batch) == ("expired", 3, 0, 3)


async def test_a_job_expires_with_its_batch(gateway: Gateway, world: World) -> None:
    await gateway.create(line(1), window="100s")
    await world.database.fetch("UPDATE batches SET expires_at = expires_at - interval '40 s'")
    await gateway.import_all()
    (record,) = await world.database.fetch(
        "SELECT extract(epoch FROM j.expires_at - b.expires_at)::double precision AS late FROM jobs j, batches b"
    )
    assert abs(record["late"]) < 5


async def test_a_file_that_is_gone_ends_the_batch(
    gateway: Gateway, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STEP_LINES", 2)
    batch = await gateway.create(lines(5))
    await gateway.importer.sweep()
    found = await gateway.store.find(batch, world.tenant)
    assert found is not None
    await gateway.objects.delete([file_key(world.tenant, found.input_file)])
    await gateway.import_all()
    assert await gateway.find(batch) == ("in_progress", 5, 0, 0)
    await end_all(world, batch)
    assert await complete(world).scan() == 1
    assert await gateway.find(batch) == ("failed", 5, 2, 0)
    found = await gateway.store.find(batch, world.tenant)
    assert found is not None
    (error,) = view_batch(found, {}).errors.data  # type: ignore[union-attr]
    assert (error.code, "after 2 lines" in error.message) == ("file_not_found", True)


async def test_an_outage_of_the_database_stops_nothing_for_good(
    gateway: Gateway, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = await gateway.create(line(1))

    async def fail(*_: object) -> None:
        raise DatabaseUnavailable

    with monkeypatch.context() as patch:
        patch.setattr(gateway.store, "advance", fail)
        assert not await gateway.importer.sweep()
    gateway.importer._due.clear()
    await gateway.import_all()
    assert await list_names(world.database, batch) == ["1"]
