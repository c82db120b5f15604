"""A batch completes once, when the last of its jobs has ended."""

import asyncio
from collections.abc import Iterable, Sequence
from uuid import UUID

import msgspec
import pytest

from common import ids
from common.job_states import Status
from common.jobs.end import end_jobs
from common.postgres.database import Connection, Database
from common.rabbitmq.change_publisher import ChangePublisher
from common.views.batch import BatchBody
from services.dispatcher.maintenance.batches import batch_completer
from services.dispatcher.maintenance.batches.batch_completer import BatchCompleter
from services.dispatcher.maintenance.batches.store import BatchStore as DispatcherBatchStore
from services.dispatcher.maintenance.batches.store import CompletedBatch, LockedBatch
from services.dispatcher.maintenance.retention.store import RetentionStore
from services.gateway.batches.schemas import ItemProblem
from services.gateway.batches.store import BatchStore, NewBatch, NewItem
from services.gateway.events.store import EventStore
from tests.integration.jobs import TRACEPARENT, claim, new_end, new_job
from tests.integration.world import World

PROBLEM = ItemProblem("urn:charonia:problem:invalid_request", "wrong", [])


@pytest.fixture
def world(database: Database, tenant: UUID) -> World:
    return World(database, tenant)


@pytest.fixture
def completer(world: World) -> BatchCompleter:
    return BatchCompleter(DispatcherBatchStore(world.database), world.wake_ups, world.changes, "https://here", 1.0)


async def add(world: World, count: int = 1) -> tuple[UUID, list[UUID]]:
    batch_id = ids.new()
    jobs = [new_job(world.tenant, batch_id=batch_id, max_attempts=1) for _ in range(count)]
    batch = NewBatch(batch_id, world.tenant, count + 1, count, TRACEPARENT)
    assert await BatchStore(world.database).add(batch, jobs) is not None
    return batch_id, [job.id for job in jobs]


async def end(world: World, job: UUID, status: Status = Status.SUCCEEDED) -> None:
    await end_jobs(world.database, [new_end(await claim(world.database, job), status)])


async def list_completed(database: Database) -> list[BatchBody]:
    found = await database.fetch("SELECT body FROM events WHERE type = 'batch.completed' ORDER BY id")
    return [msgspec.json.decode(record["body"], type=BatchBody) for record in found]


async def test_a_batch_completes_once_with_its_counts_when_the_last_job_has_ended(
    world: World, completer: BatchCompleter
) -> None:
    batch, (first, second, third, fourth) = await add(world, 4)
    await end(world, first)
    await end(world, second, Status.FAILED)
    await world.cancel(third)
    assert await completer.scan() == 0  # one is queued
    running = await claim(world.database, fourth)
    assert await completer.scan() == 0
    await world.cancel(fourth)
    assert await completer.scan() == 0  # canceling
    await end_jobs(world.database, [new_end(running, Status.CANCELED)])
    assert await completer.scan() == 1
    assert await completer.scan() == 0
    (body,) = await list_completed(world.database)
    shown = ids.encode(ids.Kind.BATCH, batch)
    assert (body.data.id, body.data.status, body.data.total, body.data.accepted) == (shown, "completed", 5, 4)
    counted = {status: count for status, count in body.data.counts.items() if count}
    assert counted == {"succeeded": 1, "failed": 1, "canceled": 2}
    assert body.data.urls.self == f"https://here/v1/batches/{shown}"
    row = await BatchStore(world.database).find(batch, world.tenant)
    assert row is not None
    assert row.finished_at is not None
    assert world.wake_ups.take()[-1].routing_key == "batch.completed"


class RecordedChanges(ChangePublisher):
    """Remembers what it would announce."""

    def __init__(self) -> None:
        self.told: list[UUID] = []

    def notify(self, jobs: Iterable[UUID]) -> None:
        self.told += jobs


async def test_gateways_are_told_of_completed_batches_only(world: World) -> None:
    changes = RecordedChanges()
    completer = BatchCompleter(DispatcherBatchStore(world.database), world.wake_ups, changes, "", 1.0)
    (batch, (job,)), (open_batch, _) = await add(world), await add(world)
    await end(world, job)
    assert await completer.scan() == 1
    assert changes.told == [batch]
    snapshots = await EventStore(world.database).find_snapshots([batch, open_batch, job])
    assert {each: snapshot.status for each, snapshot in snapshots.items()} == {
        batch: Status.SUCCEEDED,
        open_batch: Status.PROCESSING,
        job: Status.SUCCEEDED,
    }


async def test_concurrent_instances_complete_it_once(world: World, completer: BatchCompleter) -> None:
    jobs = [(await add(world))[1][0] for _ in range(20)]
    for job in jobs:
        await end(world, job)
    others = [
        BatchCompleter(DispatcherBatchStore(world.database), world.wake_ups, world.changes, "", 1.0) for _ in range(3)
    ]
    assert sum(await asyncio.gather(*(each.scan() for each in (completer, *others)))) == 20
    assert len({body.data.id for body in await list_completed(world.database)}) == 20
    assert len(await list_completed(world.database)) == 20


class Interrupted(BatchCompleter):
    """Another instance tries to complete the batches before this one has written anything."""

    others = 0

    async def _record_completed(self, connection: Connection, locked: Sequence[LockedBatch]) -> list[CompletedBatch]:
        other = BatchCompleter(self._store, self._wake_ups, self._changes, "", 1.0)
        self.others += await other.complete([batch.row.id for batch in locked])
        return await super()._record_completed(connection, locked)


async def test_an_instance_skips_batches_that_another_one_completes(world: World) -> None:
    _, (job,) = await add(world)
    await end(world, job)
    completer = Interrupted(DispatcherBatchStore(world.database), world.wake_ups, world.changes, "", 1.0)
    assert (await completer.scan(), completer.others) == (1, 0)
    assert len(await list_completed(world.database)) == 1


class Retried(BatchCompleter):
    """A client retries a job after its batch was found complete."""

    def __init__(self, world: World, job: UUID) -> None:
        super().__init__(DispatcherBatchStore(world.database), world.wake_ups, world.changes, "", 1.0)
        self.world, self.job = world, job

    async def _record_completed(self, connection: Connection, locked: Sequence[LockedBatch]) -> list[CompletedBatch]:
        await self.world.retry(self.job)
        return await super()._record_completed(connection, locked)


async def test_a_batch_stays_open_if_a_job_is_retried_meanwhile(world: World, completer: BatchCompleter) -> None:
    _, (job,) = await add(world)
    await end(world, job, Status.FAILED)
    assert await Retried(world, job).scan() == 0
    assert await list_completed(world.database) == []
    await end(world, job)
    assert await completer.scan() == 1
    assert [body.data.counts[Status.SUCCEEDED] for body in await list_completed(world.database)] == [1]


async def test_a_later_retry_of_a_job_does_not_complete_it_again(world: World, completer: BatchCompleter) -> None:
    _, (job,) = await add(world)
    await end(world, job, Status.FAILED)
    assert await completer.scan() == 1
    assert await world.retry(job) == {job}
    assert await completer.scan() == 0
    await end(world, job)
    assert await completer.scan() == 0
    assert len(await list_completed(world.database)) == 1


async def test_scans_reach_all_open_batches(
    world: World, completer: BatchCompleter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_completer, "SCAN", 2)
    added = sorted([await add(world) for _ in range(5)])
    await end(world, added[4][1][0])
    assert [await completer.scan() for _ in range(3)] == [0, 0, 1]
    await end(world, added[0][1][0])
    assert await completer.scan() == 1


async def test_an_old_batch_is_removed_after_its_jobs(
    world: World, completer: BatchCompleter, monkeypatch: pytest.MonkeyPatch
) -> None:
    (_, (kept,)), (_, (old,)), (young, _) = [await add(world) for _ in range(3)]
    await end(world, kept)
    await end(world, old)
    assert await completer.scan() == 2
    await world.database.fetch("DELETE FROM jobs WHERE id = $1", old)
    assert await remove_once(world.database, 3600.0) == 3
    await world.database.fetch("UPDATE batches SET finished_at = finished_at - interval '2 hours'")
    assert await remove_once(world.database, 3600.0) == 2
    left = await world.database.fetch("SELECT id FROM batches WHERE finished_at IS NULL")
    assert [record["id"] for record in left] == [young]


async def remove_once(database: Database, retention: float) -> int:
    """Return how many batches are left."""
    await RetentionStore(database).remove_batches(retention, 10, 10)
    return len(await database.fetch("SELECT id FROM batches"))


async def test_batches_are_removed_with_a_limited_number_of_items_at_a_time(
    world: World, completer: BatchCompleter
) -> None:
    """A statement that removes millions of rows would delay everybody."""
    for _ in range(5):
        jobs = [new_job(world.tenant, batch_id=(batch_id := ids.new())) for _ in range(1)]
        items = [NewItem(0, jobs[0].id), *(NewItem(number, None, problem=PROBLEM) for number in range(1, 4))]
        batch = NewBatch(batch_id, world.tenant, len(items), 1, TRACEPARENT, items=items)
        assert await BatchStore(world.database).add(batch, jobs) is not None
        await end(world, jobs[0].id)
    assert await completer.scan() == 5
    await world.database.fetch("DELETE FROM jobs")
    await world.database.fetch("UPDATE batches SET finished_at = finished_at - interval '2 hours'")
    removed = [await RetentionStore(world.database).remove_batches(3600.0, 10, 8) for _ in range(4)]
    assert removed == [2, 2, 1, 0]
    assert await world.database.fetch("SELECT FROM batch_items") == []
