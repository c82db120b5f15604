"""Outputs are written to buckets of tenants on a real S3 server."""

import asyncio
import html
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pytest

from common import ids
from common.job_states import Failure
from common.jobs.requeue import requeue_jobs
from common.locations.allowed import AllowedLocations
from common.locations.buckets import Buckets
from common.locations.location import Location
from common.locations.outputs import locate_output
from common.object_store.keys import file_key
from common.object_store.store import ObjectStore
from common.postgres.database import Database
from common.tensors import Datatype
from common.views.outputs import OutputTensor
from services.dispatcher.failures import retry_policy
from services.dispatcher.results import object_puts, output_locations
from services.dispatcher.results.output_files import OutputFiles
from services.dispatcher.results.output_locations import OutputLocations
from services.dispatcher.results.store import OutputsNotStored
from services.dispatcher.triton.tensors import OutputFile, make_file
from services.gateway.commands.locations.store import LocationStore
from tests.integration.common.object_store.streams import make_bytes, read_all
from tests.integration.jobs import claim, make_due, new_requeue, submit
from tests.integration.stores import Stores
from tests.integration.waiting import until
from tests.support.s3.server import S3

CONTENT = make_bytes(9 * 1024 * 1024 + 17)  # two parts
OWN = "own"
DEADLINE = 1.0


def make_output(folder: Location, content: bytes = CONTENT, name: str = "y") -> OutputFile:
    file = make_file(OutputTensor(name, Datatype.UINT8, [len(content)], content), lambda: None)
    file.location = locate_output(folder, name, -1)
    return file


@dataclass
class World:
    """A tenant that may write to the folder `out/` of a bucket."""

    database: Database
    tenant: UUID
    bucket: str
    locations: OutputLocations

    @property
    def folder(self) -> Location:
        return Location(self.bucket, "out/job/1/")

    async def allow(self, bucket: str | None = None, tenant: UUID | None = None) -> None:
        place = Location(bucket or self.bucket, "out/")
        await LocationStore(self.database).allow(tenant or self.tenant, place, read=False, write=True)

    async def fail(self, folder: Location, output: OutputFile) -> retry_policy.Outcome:
        with pytest.raises(OutputsNotStored) as caught:
            await self.locations.save(self.tenant, folder, [output])
        return caught.value.outcome


@pytest.fixture
async def world(database: Database, tenant: UUID, s3: S3, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    bucket = f"tenant-{uuid.uuid4().hex[:12]}"
    s3.create_bucket(bucket)
    for variable, value in s3.environment.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr(output_locations, "RETRY_SECONDS", 0.01)
    allowed = AllowedLocations(database, f"s3://{OWN}/prefix")
    world = World(database, tenant, bucket, OutputLocations(allowed, Buckets(DEADLINE)))
    await world.allow()
    yield world
    s3.thaw()
    world.locations.close()


async def test_each_output_is_an_object(world: World) -> None:
    outputs = [make_output(world.folder), make_output(world.folder, b"", "empty")]
    for _ in range(2):  # a streaming model's are saved with their response, then with the result
        await world.locations.save(world.tenant, world.folder, outputs)
    assert [len(each.data) for each in outputs] == [0, 0]
    store = ObjectStore(f"s3://{world.bucket}")
    assert await read_all(store, "out/job/1/y") == CONTENT
    assert (await store.head("out/job/1/empty")).size == 0
    store.close()


async def test_a_folder_keeps_its_name(world: World, s3: S3) -> None:
    folder = Location(world.bucket, "out/a b/größe=1/50%2F#?~&+/")
    await world.locations.save(world.tenant, folder, [make_output(folder, b"x")])
    assert [html.unescape(key) for key in s3.list_keys(world.bucket)] == [f"{folder.key}y"]


async def test_a_tenant_writes_only_where_it_may_write_now(world: World, s3: S3) -> None:
    for folder in (Location(world.bucket, "other/"), Location(OWN, "prefix/out/"), Location(OWN, "")):
        outcome = await world.fail(folder, make_output(folder))
        assert isinstance(outcome, retry_policy.Attempted)
        assert (outcome.failure.code, outcome.failure.retryable) == ("output_location_refused", False)
        assert f"{folder}" in outcome.failure.message
    assert await LocationStore(world.database).revoke(world.tenant, Location(world.bucket, "out/"))
    assert isinstance(await world.fail(world.folder, make_output(world.folder)), retry_policy.Attempted)
    assert s3.list_keys(world.bucket) == []


@pytest.mark.parametrize("content", [b"small", CONTENT], ids=["small", "in parts"])
async def test_a_bucket_that_is_missing_is_refused(world: World, content: bytes) -> None:
    missing = f"missing-{uuid.uuid4().hex[:12]}"
    await world.allow(missing)
    folder = Location(missing, "out/")
    assert (await world.fail(folder, make_output(folder, content))).failure.code == "output_location_refused"


async def test_outputs_wait_while_the_bucket_is_away(world: World, s3: S3) -> None:
    s3.freeze()
    outputs = [make_output(world.folder), make_output(world.folder, name="z")]
    saving = asyncio.create_task(world.locations.save(world.tenant, world.folder, outputs))
    done, _ = await asyncio.wait({saving}, timeout=2 * DEADLINE)
    assert not done
    s3.thaw()
    await asyncio.wait_for(saving, 30.0)
    assert s3.list_keys(world.bucket) == ["out/job/1/y", "out/job/1/z"]


async def test_outputs_wait_no_longer_than_their_deadline(
    world: World, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_locations, "BUCKET_SECONDS", 0.5)
    s3.freeze()
    outcome = await world.fail(world.folder, make_output(world.folder))
    text = f"the bucket of {world.folder} did not take the job's outputs within 0.5 s; check that it answers"
    assert outcome == retry_policy.Attempted(Failure("output_location_failed", text, True))


async def test_a_bucket_that_hangs_delays_no_other_outputs(world: World, s3: S3, tmp_path: Path) -> None:
    """Neither those that stay in Charonia, nor those of other tenants."""
    other_tenant = ids.new()
    await world.database.fetch(
        "INSERT INTO tenants (id, name, webhook_secret) VALUES ($1, 'stranger', '')", other_tenant
    )
    busy: list[str] = []

    class Hanging(ObjectStore):
        async def put(self, key: str, *_: object, **__: object) -> None:  # type: ignore[override]
            busy.append(key)
            await asyncio.Event().wait()

    hanging = Hanging((tmp_path / "away").as_uri())
    puts = object_puts.ObjectPuts(output_locations.PUTS)
    waiting = [
        asyncio.create_task(puts.put(world.tenant, hanging, str(n), make_output(world.folder))) for n in range(9)
    ]
    await until(lambda: len(busy) == object_puts.PUTS_PER_TENANT, "the tenant has its permits")
    waiting.append(asyncio.create_task(puts.put(other_tenant, hanging, "other", make_output(world.folder))))
    await until(lambda: "other" in busy, "the other tenant has a turn")
    assert len(busy) == object_puts.PUTS_PER_TENANT + 1
    own = ObjectStore((tmp_path / "own").as_uri())
    output = make_file(OutputTensor("y", Datatype.UINT8, [3], b"abc"), lambda: None)
    await OutputFiles(Stores(world.database).results, own).save(world.tenant, [output])
    assert await read_all(own, file_key(world.tenant, output.id)) == b"abc"
    for task in waiting:
        task.cancel()


async def test_a_late_attempt_cannot_replace_the_outputs_of_another(world: World, s3: S3) -> None:
    place = f"s3://{world.bucket}/out/"
    old = await claim(world.database, await submit(world.database, world.tenant, output_location=place))
    assert await requeue_jobs(world.database, [new_requeue(old)])
    await make_due(world.database, old.id)
    new = await claim(world.database, old.id)
    for job, content in ((new, b"new"), (old, b"late")):
        assert job.output_folder is not None
        await world.locations.save(world.tenant, job.output_folder, [make_output(job.output_folder, content)])
    shown = ids.encode(ids.Kind.JOB, old.id)
    assert s3.list_keys(world.bucket) == [f"out/{shown}/{job.claim}/y" for job in (old, new)]
    store = ObjectStore(f"s3://{world.bucket}")
    assert await read_all(store, f"out/{shown}/{new.claim}/y") == b"new"
    store.close()
