"""Jobs survive what happens while their files are read."""

import asyncio

from tests.support.api.input_files import upload_file
from tests.support.api.model_inputs import IMAGE, LINES, work
from tests.support.stacks.on_s3 import OnS3
from tests.support.waiting import eventually


async def test_jobs_wait_while_the_store_is_away(on_s3: OnS3) -> None:
    api = on_s3.api
    file = await upload_file(api, IMAGE)
    await asyncio.to_thread(on_s3.s3.freeze)
    jobs = [await api.submit("ocr", {"image": {"file": file}}) for _ in range(3)]

    async def is_returned() -> bool | None:
        return all([await api.list_attempts(job.id) for job in jobs]) or None

    await eventually(is_returned, "every job was given back")
    assert (await api.run("work", work(1))).status == "succeeded"
    await asyncio.to_thread(on_s3.s3.thaw)
    for job in jobs:
        done = await api.wait(job.id, within=40.0)
        assert (done.status, done.attempt, done.output("text")) == ("succeeded", 1, LINES)
        *returned, _ = await api.list_attempts(job.id)
        # Its lease of 4 s was renewed: a lost one would be `worker_lost`.
        assert {(each.status, each.error_code) for each in returned} == {("returned", "store_unavailable")}
        assert "AWS" not in str(returned)


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


async def test_a_slow_download_ends_with_the_timeout_of_the_attempt(on_s3: OnS3) -> None:
    api = on_s3.api
    file = await upload_file(api, IMAGE)
    await asyncio.to_thread(on_s3.s3.freeze)
    job = await api.run("ocr", {"image": {"file": file}}, timeout=0.5, retry={"max_attempts": 1})
    assert (job.status, job.error and job.error.code) == ("failed", "input_timeout")
