"""Large outputs become files of their job with its end, on a local folder and on S3. Nothing else leaves a file."""

import asyncio
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import pytest

from common import ids
from common.job_states import Status
from common.jobs.end import end_jobs
from common.jobs.job import JobToRun
from common.jobs.requeue import requeue_jobs
from common.object_store.keys import file_key
from common.object_store.store import ObjectStore
from common.postgres.database import Database
from common.tensors import Datatype
from common.views.outputs import OutputTensor
from services.dispatcher.failures import retry_policy
from services.dispatcher.maintenance.files import expired_files as sweeper
from services.dispatcher.maintenance.files.store import UnneededFileStore
from services.dispatcher.results import object_puts, output_files
from services.dispatcher.results.output_files import OutputFiles
from services.dispatcher.results.store import OutputsNotStored, Step
from services.dispatcher.triton.responses import InferenceResult
from services.dispatcher.triton.tensors import OutputFile, make_file
from tests.integration.common.object_store.conftest import Place
from tests.integration.common.object_store.streams import list_keys, make_bytes, read_all
from tests.integration.jobs import TRACEPARENT, claim, lapse, look, make_due, new_end, new_requeue, submit
from tests.integration.places import BOTH
from tests.integration.stores import Stores
from tests.integration.waiting import until
from tests.integration.world import World as Jobs

CONTENT = make_bytes(3 * 1024 * 1024 + 17)
FILES = "SELECT id, status, job_id, size, expires_at = 'infinity' AS stays FROM files WHERE tenant_id = $1 ORDER BY id"
GIVEN_UP = """
SELECT status = 'deleting' AND expires_at - now() BETWEEN '30 s' AND '60 s' AS soon FROM files WHERE tenant_id = $1
"""
PAST = "UPDATE files SET expires_at = now() WHERE tenant_id = $1 AND job_id IS NULL"


def make_output(content: bytes = CONTENT) -> OutputFile:
    return make_file(OutputTensor("y", Datatype.UINT8, [len(content)], content), lambda: None)


class FileState(NamedTuple):
    id: UUID
    status: str
    job_id: UUID | None
    size: int
    stays: bool


class World:
    """A tenant's jobs, and where their outputs go."""

    def __init__(self, database: Database, objects: ObjectStore, tenant: UUID) -> None:
        self.database, self.objects, self.tenant = database, objects, tenant
        self.results = Stores(database).results
        self.files = OutputFiles(self.results, objects)
        self.sweeper = UnneededFileStore(database)

    async def start(self) -> JobToRun:
        return await claim(self.database, await submit(self.database, self.tenant))

    async def list_files(self) -> list[FileState]:
        return [FileState(*record.values()) for record in await self.database.fetch(FILES, self.tenant)]

    async def list_objects(self) -> list[str]:
        return await list_keys(self.objects)

    async def sweep(self) -> int:
        """Let the time of everything be over that belongs to no job, then sweep."""
        await self.database.fetch(PAST, self.tenant)
        return await sweeper.sweep(self.sweeper, self.objects)

    async def has_nothing(self) -> bool:
        return (await self.list_files(), await self.list_objects()) == ([], [])

    async def is_given_up(self) -> bool:
        """Return whether a sweeper deletes all files soon: long before the end of their rows."""
        found = await self.database.fetch(GIVEN_UP, self.tenant)
        return bool(found) and all(record["soon"] for record in found)

    async def end(self, job: JobToRun, *files: OutputFile, status: Status = Status.SUCCEEDED) -> bool:
        return bool(await end_jobs(self.database, [new_end(job, status, files=[file.id for file in files])]))


@pytest.fixture
def world(database: Database, store: ObjectStore, tenant: UUID) -> World:
    return World(database, store, tenant)


@BOTH
async def test_a_file_belongs_to_its_job_from_the_end_on(world: World) -> None:
    job, output = await world.start(), make_output()
    await world.files.save(world.tenant, [output])
    assert await world.list_files() == [FileState(output.id, "uploading", None, len(CONTENT), False)]
    assert len(output.data) == 0
    assert await world.end(job, output)
    assert await world.list_files() == [FileState(output.id, "ready", job.id, len(CONTENT), True)]
    measured = await world.database.fetch("SELECT output_file_bytes AS size FROM jobs")
    assert [record["size"] for record in measured] == [len(CONTENT)]
    assert await world.sweep() == 0
    assert await read_all(world.objects, file_key(world.tenant, output.id)) == CONTENT


async def test_what_a_killed_dispatcher_leaves_is_swept(world: World) -> None:
    """It is killed after the row, or after the object, or in the middle of it. The next attempt ends the job once."""
    old, first, second = await world.start(), make_output(), make_output()
    await world.results.add_files(world.tenant, [first])
    await world.files.save(world.tenant, [second])
    await lapse(world.database, old.id)
    await requeue_jobs(world.database, [new_requeue(old)])
    await make_due(world.database, old.id)
    job, output = await claim(world.database, old.id), make_output()
    await world.files.save(world.tenant, [output])
    assert not await world.end(old, second)
    assert await world.end(job, output)
    assert not await world.end(job, output)
    assert await world.sweep() == 2
    assert [file.id for file in await world.list_files()] == [output.id]
    assert await world.list_objects() == [file_key(world.tenant, output.id)]


async def test_a_job_whose_file_was_swept_does_not_end(world: World) -> None:
    """Other ends in its statement are recorded."""
    job, other, output = await world.start(), await world.start(), make_output()
    await world.files.save(world.tenant, [output])
    assert await world.sweep() == 1
    ends = [new_end(job, files=[output.id]), new_end(other)]
    assert await end_jobs(world.database, ends) == {ends[1].event.id}
    assert (await look(world.database, job.id)).status is Status.PROCESSING
    assert await world.has_nothing()


async def test_a_sweeper_that_is_slower_than_the_end_deletes_nothing(world: World) -> None:
    job, output = await world.start(), make_output()
    await world.files.save(world.tenant, [output])
    await world.database.fetch(PAST, world.tenant)
    async with world.database.transaction() as ending:
        await ending.execute("SELECT FROM files WHERE id = $1 FOR UPDATE", output.id)
        assert await sweeper.sweep(world.sweeper, world.objects) == 0
    assert await world.end(job, output)
    assert await world.sweep() == 0


@pytest.mark.parametrize("status", [Status.FAILED, Status.CANCELED])
async def test_a_job_that_ends_otherwise_leaves_no_file(world: World, status: Status) -> None:
    job, output = await world.start(), make_output()
    await world.files.save(world.tenant, [output])
    await world.database.fetch("UPDATE jobs SET status = 'canceling' WHERE id = $1", job.id)
    assert await world.end(job, status=status)
    assert await world.sweep() == 1
    assert await world.has_nothing()


async def test_the_files_of_responses_belong_to_the_job_at_once(world: World) -> None:
    job, outputs = await world.start(), [make_output(), make_output()]
    steps = [Step(job.id, job.claim, number, b"[]", [file]) for number, file in enumerate(outputs, 1)]
    await world.files.save(world.tenant, outputs)
    for _ in range(2):
        await world.results.add_steps(steps)
    assert {(file.status, file.job_id) for file in await world.list_files()} == {("ready", job.id)}
    assert await world.end(job, *outputs)
    assert await world.sweep() == 0


async def test_a_response_of_an_old_claim_leaves_no_file(world: World) -> None:
    old, output = await world.start(), make_output()
    await requeue_jobs(world.database, [new_requeue(old)])
    await make_due(world.database, old.id)
    await claim(world.database, old.id)
    await world.files.save(world.tenant, [output])
    await world.results.add_steps([Step(old.id, old.claim, 1, b"[]", [output])])
    assert await world.sweep() == 1
    assert await world.has_nothing()


async def test_an_erased_job_takes_its_files_along(world: World) -> None:
    job, output = await world.start(), make_output()
    await world.files.save(world.tenant, [output])
    assert await world.end(job, output)
    assert await Jobs(world.database, world.tenant).erase(job.id)
    assert await world.sweep() == 1
    assert await world.has_nothing()


@pytest.fixture
def local(database: Database, tenant: UUID, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world whose store is away while `root` is no folder."""
    monkeypatch.setattr(output_files, "RETRY_SECONDS", 0.01)
    return World(database, ObjectStore((tmp_path / "root").as_uri(), deadline=10.0), tenant)


def take_away(root: Path) -> None:
    root.rename(root.with_name("away"))
    root.write_text("no folder")


def bring_back(root: Path) -> None:
    root.unlink()
    root.with_name("away").rename(root)


async def test_results_wait_while_the_store_is_away(
    local: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job, other, outputs = await local.start(), await local.start(), [make_output(), make_output()]
    take_away(tmp_path / "root")
    saving = asyncio.create_task(local.files.save(local.tenant, outputs))
    await until(lambda: "outputs.store_unavailable" in caplog.text, "the outage is noticed")
    assert await local.end(other)
    done, _ = await asyncio.wait({saving}, timeout=0.2)
    assert not done
    bring_back(tmp_path / "root")
    await saving
    assert await local.end(job, *outputs)
    assert caplog.text.count("outputs.store_unavailable") == 1
    assert len(await local.list_objects()) == 2


async def test_a_result_waits_no_longer_than_its_deadline(
    local: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_files, "STORE_SECONDS", 0.1)
    take_away(tmp_path / "root")
    with pytest.raises(OutputsNotStored) as caught:
        await local.files.save(local.tenant, [make_output()])
    assert isinstance(caught.value.outcome, retry_policy.Attempted), "a store that stays away costs no run for ever"
    await until(local.is_given_up, "the file no longer counts for an hour")
    bring_back(tmp_path / "root")
    assert await local.sweep() == 1
    assert await local.has_nothing()


class HangingStore(ObjectStore):
    """Takes part of each object, then nothing more. Counts what it takes at a time."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.busy: list[str] = []
        self._end = asyncio.Event()
        self._puts: set[asyncio.Task[object]] = set()

    async def thaw(self) -> None:
        """End all puts."""
        self._end.set()
        _, pending = await asyncio.wait(self._puts, timeout=5.0)
        assert not pending

    async def put(self, key: str, *_: object, **__: object) -> None:  # type: ignore[override]
        self.busy.append(key)
        task = asyncio.current_task()
        assert task is not None
        self._puts.add(task)
        try:
            await asyncio.Event().wait()
        finally:
            await self._end.wait()


async def test_a_cancel_does_not_wait_for_a_store_that_hangs(database: Database, tenant: UUID, place: Place) -> None:
    store = HangingStore(place.url)
    world = World(database, store, tenant)
    saving = asyncio.create_task(world.files.save(tenant, [make_output()]))
    await until(lambda: bool(store.busy), "the put has begun")
    saving.cancel()
    done, _ = await asyncio.wait({saving}, timeout=5.0)
    assert done
    await until(world.is_given_up, "the file no longer counts for an hour")
    await store.thaw()


async def test_an_end_that_comes_too_late_gives_its_files_up(world: World) -> None:
    """Files of responses that were recorded stay."""
    old, shown, output = await world.start(), make_output(), make_output()
    await world.files.save(world.tenant, [shown, output])
    await world.results.add_steps([Step(old.id, old.claim, 1, b"[]", [shown])])
    await requeue_jobs(world.database, [new_requeue(old)])
    wanted = {(shown.id, "ready"), (output.id, "deleting")}
    result = InferenceResult("1", b"[]", [shown, output])
    await Jobs(world.database, world.tenant).recorder.succeed(old, result, old.started_at, 1.0, TRACEPARENT)

    async def is_given_up() -> bool:
        return {(file.id, file.status) for file in await world.list_files()} == wanted

    await until(is_given_up, "the file no longer counts for an hour")


async def test_a_tenant_leaves_permits_to_others(database: Database, tenant: UUID, folder: Place) -> None:
    store = HangingStore(folder.url)
    world = World(database, store, tenant)
    saving = [asyncio.create_task(world.files.save(tenant, [make_output()])) for _ in range(10)]
    await until(lambda: len(store.busy) == object_puts.PUTS_PER_TENANT, "the tenant has its permits")
    stranger = ids.new()
    await database.fetch("INSERT INTO tenants (id, name, webhook_secret) VALUES ($1, 'stranger', '')", stranger)
    saving.append(asyncio.create_task(world.files.save(stranger, [make_output()])))
    await until(lambda: any(str(stranger) in key for key in store.busy), "the other tenant has a permit")
    assert len(store.busy) == object_puts.PUTS_PER_TENANT + 1
    for task in saving:
        task.cancel()
    await asyncio.wait(saving)
    await store.thaw()
