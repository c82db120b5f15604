"""Jobs survive what happens while their files are read from S3. The tests share a gateway and a dispatcher."""

import asyncio
import hashlib
from collections.abc import AsyncIterator

import pytest

from tests.support.api.input_files import upload_file
from tests.support.api.model_inputs import IMAGE, LINES, work
from tests.support.stacks.on_s3 import OnS3
from tests.support.waiting import eventually

PART = slice(10, 50)  # of the file


@pytest.fixture
async def on_s3(shared_on_s3: OnS3) -> AsyncIterator[OnS3]:
    yield shared_on_s3
    await asyncio.to_thread(shared_on_s3.s3.thaw)


async def test_a_slow_download_ends_with_the_timeout_of_the_attempt(on_s3: OnS3) -> None:
    api = on_s3.api
    file = await upload_file(api, IMAGE)
    await asyncio.to_thread(on_s3.s3.freeze)
    job = await api.run("ocr", {"image": {"file": file}}, timeout=0.5, retry={"max_attempts": 1})
    assert (job.status, job.error and job.error.code) == ("failed", "input_timeout")


async def test_a_job_is_canceled_while_its_file_is_read(on_s3: OnS3) -> None:
    api = on_s3.api
    file = await upload_file(api, IMAGE)
    await asyncio.to_thread(on_s3.s3.freeze)
    job = await api.submit("ocr", {"image": {"file": file}})
    await api.wait(job.id, "processing")
    assert (await api.http.post(f"/v1/jobs/{job.id}/cancel")).status_code in (200, 202)
    canceled = await api.wait(job.id)
    *_, last = await api.list_attempts(job.id)  # it ended by the cancellation: no read gave the job back before
    assert (canceled.status, last.status) == ("canceled", "canceled")


async def test_a_job_runs_again_when_its_dispatcher_is_killed_while_it_reads(on_s3: OnS3) -> None:
    api = on_s3.api
    file = await upload_file(api, IMAGE)
    await asyncio.to_thread(on_s3.s3.freeze)
    job = await api.submit("ocr", {"image": {"file": file}})
    await api.wait(job.id, "processing")
    await asyncio.to_thread(on_s3.dispatcher.kill)
    await asyncio.to_thread(on_s3.s3.thaw)
    await asyncio.to_thread(on_s3.dispatcher.start)
    done = await api.wait(job.id)
    assert (done.status, done.attempt, done.output("text")) == ("succeeded", 1, LINES)


async def test_jobs_wait_while_the_store_is_away(on_s3: OnS3) -> None:
    """Also one whose model gets a URL of its file and reads a part of it."""
    api = on_s3.api
    file = await upload_file(api, IMAGE)
    part = {"offset": [PART.start], "length": [PART.stop - PART.start]}
    await asyncio.to_thread(on_s3.s3.freeze)
    excerpt = await api.submit("excerpt", {"audio": {"file": file}, **part}, retry={"max_attempts": 1})
    jobs = [await api.submit("ocr", {"image": {"file": file}}) for _ in range(2)]

    async def is_returned() -> bool | None:
        return all([await api.list_attempts(job.id) for job in (excerpt, *jobs)]) or None

    await eventually(is_returned, "every job was given back")
    assert (await api.run("work", work(1))).status == "succeeded"
    kept = await api.http.delete(f"/v1/files/{file}")
    assert (kept.status_code, "cancel the job" in kept.json()["detail"]) == (409, True)
    await asyncio.to_thread(on_s3.s3.thaw)
    read = await api.wait(excerpt.id, within=40.0)
    assert read.output("sha256") == [hashlib.sha256(IMAGE[PART]).hexdigest()]
    for job in jobs:
        assert (await api.wait(job.id, within=40.0)).output("text") == LINES
    for job in (excerpt, *jobs):
        done = await api.get(job.id)
        assert (done.status, done.attempt) == ("succeeded", 1)
        *returned, _ = await api.list_attempts(job.id)
        # Its lease of 4 s was renewed: a lost one would be `worker_lost`.
        assert {(each.status, each.error_code) for each in returned} == {("returned", "store_unavailable")}
        assert "AWS" not in str(returned)
