"""The end of a batch is told once, when the last of its jobs has ended."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

import asyncpg
import msgspec
import pytest

from common import ids
from common.batch_view import BatchBody
from common.database import Connection, Database
from common.jobs import Status
from common.outbox import OutboxRow
from services.dispatcher import batches
from services.dispatcher.batches import Completer
from services.gateway.batch_store import BatchStore, NewBatch
from tests.integration.jobs import TRACEPARENT, claim, new_end, new_job
from tests.integration.world import World


@pytest.fixture
def world(database: Database, tenant: UUID) -> World:
    return World(database, tenant)


@pytest.fixture
def completer(world: World) -> Completer:
    return Completer(world.database, world.control.outbox, "https://here", 1.0)


async def add(world: World, count: int = 1) -> tuple[UUID, list[UUID]]:
    batch_id = ids.new()
    jobs = [new_job(world.tenant, batch_id=batch_id, max_attempts=1) for _ in range(count)]
    batch = NewBatch(batch_id, world.tenant, count + 1, count, TRACEPARENT)
    assert await BatchStore(world.database).add(batch, jobs) is not None
    return batch_id, [job.id for job in jobs]


async def end(world: World, job: UUID, status: Status = Status.SUCCEEDED) -> None:
    await world.store.end_jobs([new_end(await claim(world.database, job), status)])


async def list_told(database: Database) -> list[BatchBody]:
    found = await database.fetch("SELECT body FROM events WHERE type = 'batch.completed' ORDER BY id")
    return [msgspec.json.decode(record["body"], type=BatchBody) for record in found]


async def test_it_is_told_once_with_its_counts_when_the_last_job_has_ended(world: World, completer: Completer) -> None:
    batch, (first, second, third, fourth) = await add(world, 4)
    await end(world, first)
    await end(world, second, Status.FAILED)
    await world.cancel(third)
    assert await completer.look() == 0  # one is queued
    running = await claim(world.database, fourth)
    assert await completer.look() == 0
    await world.cancel(fourth)
    assert await completer.look() == 0  # canceling
    await world.store.end_jobs([new_end(running, Status.CANCELED)])
    assert await completer.look() == 1
    assert await completer.look() == 0
    (body,) = await list_told(world.database)
    shown = ids.show(ids.Kind.BATCH, batch)
    assert (body.data.id, body.data.status, body.data.total, body.data.accepted) == (shown, "completed", 5, 4)
    counted = {status: count for status, count in body.data.counts.items() if count}
    assert counted == {"succeeded": 1, "failed": 1, "canceled": 2}
    assert body.data.urls.self == f"https://here/v1/batches/{shown}"
    row = await BatchStore(world.database).find(batch, world.tenant)
    assert row is not None
    assert row.finished_at is not None
    (doorbell,) = await world.database.fetch("SELECT routing_key FROM outbox WHERE routing_key = 'batch.completed'")
    assert doorbell["routing_key"] == "batch.completed"


async def test_many_instances_at_once_tell_it_once(world: World, completer: Completer) -> None:
    jobs = [(await add(world))[1][0] for _ in range(20)]
    for job in jobs:
        await end(world, job)
    others = [Completer(world.database, world.control.outbox, "", 1.0) for _ in range(3)]
    assert sum(await asyncio.gather(*(each.look() for each in (completer, *others)))) == 20
    assert len({body.data.id for body in await list_told(world.database)}) == 20
    assert len(await list_told(world.database)) == 20


class Interrupted(Completer):
    """Another instance comes before it has written anything."""

    others = 0

    async def tell(self, connection: Connection, locked: Sequence[asyncpg.Record]) -> list[OutboxRow]:
        other = Completer(self.database, self.outbox, "", 1.0)
        self.others += await other.complete([record["id"] for record in locked])
        return await super().tell(connection, locked)


async def test_what_one_is_at_another_leaves_alone(world: World) -> None:
    _, (job,) = await add(world)
    await end(world, job)
    completer = Interrupted(world.database, world.control.outbox, "", 1.0)
    assert (await completer.look(), completer.others) == (1, 0)
    assert len(await list_told(world.database)) == 1


async def test_a_job_that_is_run_again_later_does_not_tell_it_again(world: World, completer: Completer) -> None:
    _, (job,) = await add(world)
    await end(world, job, Status.FAILED)
    assert await completer.look() == 1
    assert await world.retry(job) == {job}
    assert await completer.look() == 0
    await end(world, job)
    assert await completer.look() == 0
    assert len(await list_told(world.database)) == 1


async def test_it_goes_round_however_many_are_open(
    world: World, completer: Completer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "LOOK", 2)
    added = sorted([await add(world) for _ in range(5)])
    await end(world, added[4][1][0])
    assert [await completer.look() for _ in range(3)] == [0, 0, 1]
    await end(world, added[0][1][0])
    assert await completer.look() == 1


async def test_it_is_removed_once_it_is_old_and_its_jobs_are_gone(
    world: World, completer: Completer, monkeypatch: pytest.MonkeyPatch
) -> None:
    (_, (kept,)), (_, (old,)), (young, _) = [await add(world) for _ in range(3)]
    await end(world, kept)
    await end(world, old)
    assert await completer.look() == 2
    await world.database.fetch("DELETE FROM jobs WHERE id = $1", old)
    assert await purge_once(world.database, 3600.0) == 3
    await world.database.fetch("UPDATE batches SET finished_at = finished_at - interval '2 hours'")
    assert await purge_once(world.database, 3600.0) == 2
    left = await world.database.fetch("SELECT id FROM batches WHERE finished_at IS NULL")
    assert [record["id"] for record in left] == [young]


async def purge_once(database: Database, retention: float) -> int:
    """How many are left."""
    await database.fetch(batches.QUERIES["purge_batches"], retention, 10)
    return len(await database.fetch("SELECT id FROM batches"))
