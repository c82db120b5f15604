"""Whatever happens while an output is written, its job ends once, and no file is left without a job."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import pytest

from deploy.local.stack import Stack
from tests.support.api.api_client import Api, Job
from tests.support.api.model_inputs import fault, work
from tests.support.s3.server import S3
from tests.support.stacks.on_s3 import OnS3, move_to_s3
from tests.support.waiting import eventually

SIZE = 4000  # bytes of an output
WRITING = "SELECT count(*) FROM files WHERE status = 'uploading' AND content_type = 'application/octet-stream'"
FILES = "SELECT count(*) FROM files WHERE status <> 'ready' AND writable_until IS NULL"  # no clients' files
PAST = "UPDATE files SET expires_at = now() WHERE status <> 'ready'"
Added = Callable[[], Awaitable[int]]  # returns how many objects a test has added to the bucket


@pytest.fixture(scope="module")
async def shared_on_s3(stack: Stack, s3: S3) -> AsyncIterator[OnS3]:
    """A dispatcher for which 4 kB are a large output."""
    async with move_to_s3(stack, s3, CHARONIA_INLINE_OUTPUT_BYTES="1024") as found:
        yield found


@pytest.fixture
async def on_s3(shared_on_s3: OnS3) -> AsyncIterator[OnS3]:
    yield shared_on_s3
    await asyncio.to_thread(shared_on_s3.s3.thaw)


@pytest.fixture
async def added(on_s3: OnS3) -> Added:
    """Count the objects that the test has added to the bucket."""

    async def count_objects() -> int:
        return len(await asyncio.to_thread(on_s3.s3.list_keys, on_s3.bucket))

    before = await count_objects()

    async def count_added() -> int:
        return await count_objects() - before

    return count_added


async def count(stack: Stack, query: str) -> int:
    connection = await asyncpg.connect(stack.postgres.url)
    try:
        return int(await connection.fetchval(query))
    finally:
        await connection.close()


async def write_slowly(stack: Stack, on_s3: OnS3) -> Job:
    """Submit a job, and return once its output is being written. The store hangs."""
    await asyncio.to_thread(on_s3.s3.freeze)
    before = await count(stack, WRITING)
    job = await on_s3.api.submit("faulty", fault("large", SIZE))

    async def is_writing() -> bool | None:
        return await count(stack, WRITING) > before or None

    await eventually(is_writing, "the row of the file is there")
    return job


async def sweep(stack: Stack, added: Added, kept: int) -> None:
    """Let the time of all files without a job be over. Wait until only `kept` objects of the test are left."""

    async def is_swept() -> bool | None:
        connection = await asyncpg.connect(stack.postgres.url)
        await connection.execute(PAST)  # again, because a file that is given up gets another time
        await connection.close()
        return (await added() == kept and await count(stack, FILES) == 0) or None

    await eventually(is_swept, "no file is left without a job", within=30.0)


async def test_other_jobs_end_while_the_store_is_away(
    stack: Stack, on_s3: OnS3, added: Added, other_tenant: Api
) -> None:
    job = await write_slowly(stack, on_s3)
    for _ in range(5):
        assert (await other_tenant.run("echo", {"x": [[1.0]]})).status == "succeeded"
    assert (await on_s3.api.run("work", work(1))).status == "succeeded"
    assert (await on_s3.api.get(job.id)).status == "processing"
    await asyncio.to_thread(on_s3.s3.thaw)
    done = await on_s3.api.wait(job.id, within=60.0)
    # Its lease of 4 s was renewed: the job was not given back.
    assert (done.status, done.attempt, len(await on_s3.api.list_attempts(job.id))) == ("succeeded", 1, 1)
    output = done.file("result")
    content = await on_s3.api.http.get(f"/v1/files/{output.file}/content", follow_redirects=True)  # to the store
    assert (content.status_code, content.content, output.size) == (200, bytes(SIZE), SIZE)
    await sweep(stack, added, kept=1)


async def test_a_job_is_canceled_while_its_output_is_written(stack: Stack, on_s3: OnS3, added: Added) -> None:
    job = await write_slowly(stack, on_s3)
    assert (await on_s3.api.http.post(f"/v1/jobs/{job.id}/cancel")).status_code in (200, 202)
    assert (await on_s3.api.wait(job.id, within=10.0)).status == "canceled"
    await asyncio.to_thread(on_s3.s3.thaw)
    await sweep(stack, added, kept=0)


async def test_a_job_runs_again_when_its_dispatcher_is_killed_while_it_writes(
    stack: Stack, on_s3: OnS3, added: Added
) -> None:
    job = await write_slowly(stack, on_s3)
    await asyncio.to_thread(on_s3.dispatcher.kill)
    await asyncio.to_thread(on_s3.s3.thaw)
    await asyncio.to_thread(on_s3.dispatcher.start)
    done = await on_s3.api.wait(job.id, within=30.0)
    assert (done.status, done.attempt) == ("succeeded", 1)
    assert [each.error_code for each in await on_s3.api.list_attempts(job.id)] == ["worker_lost", None]
    await sweep(stack, added, kept=1)
