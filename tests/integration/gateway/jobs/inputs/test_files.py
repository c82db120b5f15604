"""Jobs keep the files that they read, and are not added without them."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from common import ids
from common.jobs.end import end_jobs
from common.jobs.input_files import STATEMENTS
from common.jobs.new_job import NewJob
from common.jobs.submit import submit_jobs
from common.postgres.database import Database
from services.dispatcher.maintenance.files.store import UnneededFileStore
from services.gateway.batches.store import BatchStore, FileGone, NewBatch
from services.gateway.files.quota import Quota
from services.gateway.files.store import QUERIES as FILE_QUERIES
from services.gateway.files.store import FileStore
from services.gateway.jobs.actions.erasure import Eraser
from services.gateway.jobs.inputs.store import InputStore, StoredFile
from tests.integration.files import add_file, expire_file, find_status, job_with
from tests.integration.jobs import TRACEPARENT, add_tenant, claim, look, new_end

QUOTA = Quota(100, 10_000)
UNUSABLE = {"uploading": 60.0, "deleting": 60.0, "ready": 0.0}  # status, and seconds until it expires


@pytest.fixture
def store(database: Database) -> InputStore:
    return InputStore(database)


@pytest.fixture
async def other_submit(database_url: str) -> "AsyncIterator[asyncpg.Connection[asyncpg.Record]]":
    """A connection in a transaction, as of a submit that is under way."""
    connection = await asyncpg.connect(database_url)
    await connection.execute("BEGIN")
    yield connection
    await connection.close()


async def list_uses(database: Database) -> set[tuple[UUID, UUID]]:
    uses = await database.fetch("SELECT id, unnest(input_files) FROM jobs")
    return {(record[0], record[1]) for record in uses}


async def end(database: Database, job: UUID) -> None:
    assert await end_jobs(database, [new_end(await claim(database, job))])


async def test_only_the_tenants_ready_files_are_found(database: Database, store: InputStore, tenant: UUID) -> None:
    ready = await add_file(database, tenant)
    unusable = [await add_file(database, tenant, *each) for each in UNUSABLE.items()]
    others = await add_file(database, await add_tenant(database, "other"))
    assert await store.find_files(tenant, [ready, *unusable, others, ids.new()]) == {ready: StoredFile(7, b"")}


async def test_a_job_is_added_with_its_files(database: Database, tenant: UUID) -> None:
    first, second = await add_file(database, tenant), await add_file(database, tenant)
    jobs = [job_with(tenant, first, second, first), job_with(tenant, second)]
    times, missing = await submit_jobs(database, jobs)
    assert (set(times), missing) == ({job.id for job in jobs}, {})
    both, one = (job.id for job in jobs)
    assert await list_uses(database) == {(both, first), (both, second), (one, second)}
    claimed = await claim(database, both)
    assert claimed.input_bytes == len(jobs[0].tensors) + 21


@pytest.mark.parametrize(("status", "seconds"), UNUSABLE.items())
async def test_a_job_is_not_added_without_its_files(
    database: Database, tenant: UUID, status: str, seconds: float
) -> None:
    ready, gone = await add_file(database, tenant), await add_file(database, tenant, status, seconds)
    jobs = [job_with(tenant, ready, gone), job_with(tenant, ready)]
    times, missing = await submit_jobs(database, jobs)
    assert times.keys() == {jobs[1].id}
    assert (missing[jobs[0].id].id, missing[jobs[0].id].pointer) == (gone, "/inputs/x1/file")
    assert await list_uses(database) == {(jobs[1].id, ready)}


async def test_a_repeat_is_noted_once(database: Database, tenant: UUID) -> None:
    file = await add_file(database, tenant)
    keyed: dict[str, Any] = {"idempotency_key": "key", "fingerprint": bytes(32)}
    first, second = job_with(tenant, file, **keyed), job_with(tenant, file, **keyed)
    assert (await submit_jobs(database, [first])).added.keys() == {first.id}
    assert await submit_jobs(database, [second]) == ({}, {})
    assert await list_uses(database) == {(first.id, file)}


async def test_a_file_cannot_be_deleted_while_a_job_needs_it(database: Database, tenant: UUID) -> None:
    file, files = await add_file(database, tenant), FileStore(database, QUOTA)
    ended, waiting = job_with(tenant, file), job_with(tenant, file)
    await submit_jobs(database, [ended, waiting])
    await end(database, ended.id)
    assert not await files.delete(file, tenant)
    running = await claim(database, waiting.id)
    assert not await files.delete(file, tenant)
    await end_jobs(database, [new_end(running)])
    assert not await files.delete(file, await add_tenant(database, "other"))
    assert await files.delete(file, tenant)
    assert await find_status(database, file) == "deleting"
    assert not await files.delete(file, tenant)


async def test_a_sweeper_keeps_a_file_until_its_jobs_have_ended(
    database: Database, store: InputStore, tenant: UUID
) -> None:
    file, free, sweeper = (
        await add_file(database, tenant),
        await add_file(database, tenant),
        UnneededFileStore(database),
    )
    job = job_with(tenant, file)
    await submit_jobs(database, [job])
    for each in (file, free):
        await expire_file(database, each)
    assert {(found.id, found.expired) for found in await sweeper.claim(10, 60.0)} == {(file, False), (free, True)}
    assert [await find_status(database, each) for each in (file, free)] == ["ready", "deleting"]
    assert await sweeper.claim(10, 60.0) == []  # it is looked at again after a minute
    await sweeper.remove([file, free])
    assert [await find_status(database, each) for each in (file, free)] == ["ready", None]
    assert (await store.find_files(tenant, [file])).keys() == {file}  # until then it may be used
    await end(database, job.id)
    await expire_file(database, file)
    assert [found.expired for found in await sweeper.claim(10, 60.0)] == [True]


async def test_a_submit_under_way_keeps_its_files_and_waits_for_nobody(
    database: Database,
    tenant: UUID,
    other_submit: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    file, files, sweeper = await add_file(database, tenant), FileStore(database, QUOTA), UnneededFileStore(database)
    assert len(await STATEMENTS["lock_input_files"].run(other_submit, files=[file])) == 1
    async with asyncio.timeout(5.0):
        assert not await files.delete(file, tenant)
        assert (await submit_jobs(database, [job_with(tenant, file)])).gone == {}
    await other_submit.execute("ROLLBACK; BEGIN")
    await other_submit.execute("UPDATE files SET expires_at = now() WHERE id = $1", file)
    job = job_with(tenant, file)
    async with asyncio.timeout(5.0):
        assert (await submit_jobs(database, [job])).gone.keys() == {job.id}
        assert await sweeper.claim(10, 60.0) == []


async def test_a_submit_gets_its_file_if_a_deletion_under_way_comes_to_nothing(
    database: Database,
    tenant: UUID,
    other_submit: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    """Another job needs the file, so its deletion is refused."""
    free, file = await add_file(database, tenant), await add_file(database, tenant)
    await submit_jobs(database, [job_with(tenant, file)])
    assert await other_submit.fetch(FILE_QUERIES["lock_file"], file, tenant)
    submitting = asyncio.create_task(submit_jobs(database, [job := job_with(tenant, free, file)]))
    done, _ = await asyncio.wait({submitting}, timeout=0.1)
    assert not done
    assert not await other_submit.fetch(FILE_QUERIES["delete_file"], file)
    await other_submit.execute("COMMIT")
    times, missing = await asyncio.wait_for(submitting, 5.0)
    assert (set(times), missing) == ({job.id}, {})


async def test_who_deletes_sees_a_submit_that_was_committed_before_its_lock(database: Database, tenant: UUID) -> None:
    """Each of many pairs ends with a job and its file, or without both."""
    files = FileStore(database, QUOTA)

    async def race(file: UUID, job: NewJob) -> None:
        (times, missing), deleted = await asyncio.gather(submit_jobs(database, [job]), files.delete(file, tenant))
        assert (bool(times), bool(missing), deleted) in ((True, False, False), (False, True, True))

    for _ in range(10):
        pairs = [(file, job_with(tenant, file)) for file in [await add_file(database, tenant) for _ in range(4)]]
        await asyncio.gather(*(race(*pair) for pair in pairs))
    lost = "SELECT FROM jobs j JOIN files f ON f.id = ANY(j.input_files) WHERE f.status <> 'ready'"
    assert await database.fetch(lost) == []


async def test_erasing_and_removing_a_job_removes_its_uses(database: Database, tenant: UUID) -> None:
    file = await add_file(database, tenant)
    erased, removed = job_with(tenant, file), job_with(tenant, file)
    await submit_jobs(database, [erased, removed])
    for job in (erased, removed):
        await end(database, job.id)
    assert await Eraser(database).erase(tenant, erased.id)
    assert await list_uses(database) == {(removed.id, file)}
    await database.fetch("DELETE FROM jobs WHERE id = $1", removed.id)
    assert await list_uses(database) == set()


async def test_a_batch_is_added_with_its_files_or_not_at_all(database: Database, tenant: UUID) -> None:
    batch_id, file, gone = ids.new(), await add_file(database, tenant), await add_file(database, tenant, "deleting")
    jobs = [job_with(tenant, file, batch_id=batch_id) for _ in range(3)]
    batch = NewBatch(batch_id, tenant, 3, 3, TRACEPARENT)
    with pytest.raises(FileGone) as caught:
        await BatchStore(database).add(batch, [*jobs, job_with(tenant, gone, batch_id=batch_id)])
    assert caught.value.file.id == gone
    assert await database.fetch("SELECT FROM jobs") == []
    assert await BatchStore(database).add(batch, jobs)
    assert await list_uses(database) == {(job.id, file) for job in jobs}
    assert (await look(database, jobs[0].id)).status == "queued"


async def test_a_file_stays_readable_while_a_job_needs_it(database: Database, tenant: UUID) -> None:
    """Its model may read it by a URL, also before a sweeper has moved its end on."""
    file_id, files = await add_file(database, tenant), FileStore(database, QUOTA)
    job = job_with(tenant, file_id)
    await submit_jobs(database, [job])
    await expire_file(database, file_id)
    assert await files.find(file_id) is not None
    await end(database, job.id)
    assert await files.find(file_id) is None
