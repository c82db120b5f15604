"""Large inputs of jobs go to the object store with their jobs, and leave nothing without them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import UUID

import msgspec
import pytest

from common import ids
from common.errors import StoreUnavailable, Unavailable
from common.job_states import Status
from common.jobs import submit
from common.jobs.input_files import LargeInputsLost
from common.jobs.new_job import NewJob
from common.object_store.pauses import FIRST_SECONDS, Pauses
from common.object_store.store import ObjectStore
from common.postgres.database import Database
from common.rabbitmq.change_publisher import ChangePublisher
from common.rabbitmq.publisher import Publisher
from common.tensors import Datatype, Signature
from services.dispatcher.maintenance.files.store import UnneededFileStore
from services.dispatcher.triton.model_version import ModelVersion
from services.gateway.auth.store import Key
from services.gateway.batches.store import BatchStore, NewBatch
from services.gateway.http.problems import Problem
from services.gateway.jobs import submit as gateway_submit
from services.gateway.jobs.actions.erasure import Eraser
from services.gateway.jobs.inputs import large_input_writer
from services.gateway.jobs.inputs.store import InputStore
from services.gateway.jobs.parse import parse_job
from tests.integration.common.object_store.streams import list_keys
from tests.integration.forgetting import forget
from tests.integration.gateway.jobs.inputs.large_inputs import LARGE, SMALL, Killed, World, content, write_body
from tests.integration.job_actions import new_retrier
from tests.integration.jobs import TRACEPARENT
from tests.integration.stores import Stores
from tests.integration.submitters import new_submitter
from tests.support.recorded_wake_ups import RecordedWakeUps
from tests.support.s3.server import S3
from tests.unit.clock import Clock


@pytest.fixture
async def world(database: Database, tenant: UUID, url: str) -> AsyncIterator[World]:
    inputs = [Signature("x", Datatype.FP32, [-1, -1])]
    both = [(ModelVersion(name, "1", False, 0, 1, inputs, []), True) for name in ("echo", "other")]
    narrow = [Signature("x", Datatype.FP32, [-1, 3])]
    models = [*both, (ModelVersion("narrow", "1", False, 0, 1, narrow, []), True)]
    await Stores(database).models.save_models(models)
    objects = ObjectStore(url, deadline=10.0)
    submitter = new_submitter(database, RecordedWakeUps(), objects)
    yield World(database, objects, tenant, submitter)
    objects.close()


@pytest.mark.parametrize("url", ["folder", "s3"], indirect=True)
async def test_a_large_input_is_a_file_of_its_job(world: World) -> None:
    job = (await world.submit()).row.id
    assert await world.list_rows() == [("ready", True)]
    (record,) = await world.database.fetch("SELECT octet_length(tensors) AS size FROM jobs")
    assert record["size"] < 100
    await world.expire()
    assert await world.sweep() == 0
    assert await world.read(job) == [content()]


async def test_a_small_input_costs_nothing_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        raise AssertionError

    for name in ("begin", "measure"):
        monkeypatch.setattr(InputStore, name, fail)
    monkeypatch.setattr(large_input_writer, "drop_large_inputs", fail)
    monkeypatch.setattr(submit, "submit_in_transaction", fail)
    await world.submit(SMALL)
    assert await world.is_empty()


def die_after(monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> None:
    """Have the gateway be killed when this method has ended."""
    whole = getattr(owner, name)

    async def run(*values: object) -> object:
        await whole(*values)
        raise Killed

    async def nothing(*_: object) -> None:
        pass

    monkeypatch.setattr(owner, name, run)
    monkeypatch.setattr(large_input_writer, "drop_large_inputs", nothing)


@pytest.mark.parametrize(
    ("owner", "name", "added"),
    [(InputStore, "begin", 0), (ObjectStore, "put", 0), (gateway_submit, "submit_jobs", 1)],
    ids=["row", "put", "commit"],
)
async def test_a_gateway_killed_at_any_step_leaves_a_job_with_its_input_or_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, owner: object, name: str, added: int
) -> None:
    die_after(monkeypatch, owner, name)
    with pytest.raises(Killed):
        await world.submit()
    assert await world.count_jobs() == added
    assert await world.list_rows() == [("ready", True) if added else ("uploading", False)]
    await world.expire()
    assert await world.sweep() == 1 - added
    if added:
        (job,) = await world.database.fetch("SELECT id FROM jobs")
        assert await world.read(job["id"]) == [content()]
    else:
        assert await world.is_empty()


async def test_a_faster_sweeper_keeps_the_job_from_being_added(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = submit.submit_jobs

    async def sweep_first(*values: Any) -> object:
        await world.expire()
        assert await world.sweep() == 1
        return await whole(*values)

    monkeypatch.setattr(gateway_submit, "submit_jobs", sweep_first)
    with pytest.raises(Problem) as caught:
        await world.submit()
    assert (caught.value.status, "Retry-After" in caught.value.headers) == (503, True)
    assert await world.count_jobs() == 0
    assert await world.is_empty()


async def test_jobs_that_share_a_statement_are_added_without_the_one_that_lost_its_input(world: World) -> None:
    context = await world.submitter.make_context(Key(ids.new(), world.tenant), TRACEPARENT)
    jobs = [parse_job(write_body(), context) for _ in range(3)]
    async with world.submitter.large_inputs.written(jobs) as written:
        await world.database.fetch("DELETE FROM files WHERE id = $1", written[1].large_inputs[0].id)
        tasks = [asyncio.create_task(world.submitter._batcher_with_files.submit(job)) for job in written]
        await asyncio.wait(tasks)
    assert [isinstance(task.exception(), LargeInputsLost) for task in tasks] == [False, True, False]
    assert await world.count_jobs() == 2


async def test_repeats_leave_no_file(world: World) -> None:
    first, second = await asyncio.gather(world.submit(key="key"), world.submit(key="key"))
    third = await world.submit(key="key")
    assert sorted([first.replayed, second.replayed]) == [False, True]
    assert first.row.id == second.row.id == third.row.id
    assert len(await world.list_rows()) == 2  # the third was recognized before anything was stored
    assert await world.sweep() == 1
    assert len(await list_keys(world.objects)) == 1
    assert await world.read(first.row.id) == [content()]


async def test_a_refused_job_leaves_no_file(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object) -> object:
        raise Unavailable

    monkeypatch.setattr(gateway_submit, "submit_jobs", refuse)
    with pytest.raises(Unavailable):
        await world.submit()
    assert await world.sweep() == 1
    assert await world.is_empty()


async def erase(world: World, job: UUID) -> None:
    assert await Eraser(world.database).erase(world.tenant, job)


async def remove_old(world: World, _job: UUID) -> None:
    assert await forget(world.database) == 1


@pytest.mark.parametrize("remove", [erase, remove_old])
async def test_the_input_goes_with_its_job(world: World, remove: Callable[[World, UUID], Any]) -> None:
    job = (await world.submit()).row.id
    await world.read(job)
    await remove(world, job)
    assert await world.sweep() == 1
    assert await world.is_empty()


async def test_a_dead_letter_runs_again_with_its_input(world: World) -> None:
    job = (await world.submit()).row.id
    assert await world.read(job) == [content()]
    changes = ChangePublisher(Publisher("amqp://127.0.0.1:1/", "tests"))
    retrier = new_retrier(world.database, RecordedWakeUps(), changes)
    caller = Key(ids.new(), world.tenant)
    refused = await retrier.retry(caller, [job], (Status.FAILED,), "narrow")
    assert (refused.wake_ups, list(refused.refused)) == ({}, [job])  # its shape does not fit
    for target in (None, "other"):
        assert (await retrier.retry(caller, [job], (Status.FAILED,), target)).wake_ups.keys() == {job}
        assert await world.read(job) == [content()]


async def test_a_fallback_model_takes_large_inputs(world: World) -> None:
    assert await world.read((await world.submit(fallback_model="other")).row.id) == [content()]
    with pytest.raises(Problem, match="fallback_model"):
        await world.submit(fallback_model="narrow")


async def test_a_batch_has_large_and_small_inputs(world: World) -> None:
    context = await world.submitter.make_context(Key(ids.new(), world.tenant), TRACEPARENT)
    batch_id = ids.new()
    counts = [LARGE, SMALL, LARGE + 1]
    parsed = [msgspec.structs.replace(parse_job(write_body(count), context), batch_id=batch_id) for count in counts]
    batch = NewBatch(batch_id, world.tenant, 3, 3, TRACEPARENT)
    async with world.submitter.large_inputs.written(parsed) as jobs:
        assert await BatchStore(world.database).add(batch, jobs)
    assert await world.list_rows() == [("ready", True)] * 2
    assert await world.read(parsed[0].id) == [content()]
    assert await world.read(parsed[2].id) == [content(LARGE + 1)]


async def test_a_batch_that_lost_an_input_is_not_added(world: World) -> None:
    context = await world.submitter.make_context(Key(ids.new(), world.tenant), TRACEPARENT)
    parsed: list[NewJob] = [parse_job(write_body(count), context) for count in (LARGE, SMALL)]
    batch = NewBatch(ids.new(), world.tenant, 2, 2, TRACEPARENT)

    async def add() -> None:
        async with world.submitter.large_inputs.written(parsed) as jobs:
            await world.expire()
            await UnneededFileStore(world.database).claim(10, 0.0)
            await BatchStore(world.database).add(batch, jobs)

    with pytest.raises(LargeInputsLost):
        await add()
    assert await world.count_jobs() == 0
    await world.sweep()
    assert await world.is_empty()


@pytest.mark.parametrize("url", ["s3"], indirect=True)
async def test_without_the_store_large_inputs_are_refused_and_small_ones_are_not(
    world: World, url: str, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise AssertionError

    clock, objects = Clock(), ObjectStore(url, deadline=1.0)
    pauses = Pauses(clock)
    hasty, patient = (
        world._replace(submitter=new_submitter(world.database, RecordedWakeUps(), store, pauses=pauses))
        for store in (objects, world.objects)
    )
    await asyncio.to_thread(s3.freeze)
    with pytest.raises(StoreUnavailable):
        await hasty.submit()
    objects.close()
    assert {status for status, _ in await world.list_rows()} == {"deleting"}
    await world.submit(SMALL)
    with monkeypatch.context() as patch:
        patch.setattr(ObjectStore, "put", fail)  # nobody asks the store
        with pytest.raises(StoreUnavailable):
            await patient.submit()
    assert len(await world.list_rows()) == 1  # nothing is written
    await asyncio.to_thread(s3.thaw)
    clock.now += FIRST_SECONDS
    job = (await patient.submit()).row.id
    assert await world.sweep() == 1
    assert len(await list_keys(world.objects)) == 1
    assert await world.read(job) == [content()]


async def test_inputs_beyond_the_quota_are_refused(database: Database, world: World) -> None:
    submitter = new_submitter(database, RecordedWakeUps(), world.objects, max_stored=10_000)
    small = world._replace(submitter=submitter)
    for _ in range(2):
        await small.submit()
    with pytest.raises(Problem, match="CHARONIA_MAX_STORED_BYTES") as caught:
        await small.submit()
    assert (caught.value.status, caught.value.code) == (429, "quota_exceeded")
    with pytest.raises(Problem, match="CHARONIA_MAX_STORED_BYTES") as caught:
        await small.submit(2501)
    assert (caught.value.status, caught.value.code) == (413, "body_too_large")
    await small.submit(SMALL)
    assert await small.list_rows() == [("ready", True)] * 2


async def test_bytes_in_the_store_count_while_their_job_waits(database: Database, world: World) -> None:
    for _ in range(2):
        await world.submit(100_000)  # of 1,000,000 bytes that may wait
    (other, another) = (world._replace(submitter=new_submitter(database, RecordedWakeUps())) for _ in range(2))
    with pytest.raises(Problem, match="CHARONIA_MAX_QUEUED_BYTES") as caught:
        await other.submit(100_000)
    assert (caught.value.status, caught.value.code) == (429, "queue_full")
    with pytest.raises(Problem, match="CHARONIA_MAX_QUEUED_BYTES") as caught:
        await another.submit(250_001)
    assert caught.value.status == 422
