"""Outputs of many megabytes end their jobs, and hold up nobody else's."""

import asyncio
import hashlib

from tests.support.api.api_client import Api
from tests.support.api.model_inputs import fault

LARGE = 60_000_000  # bytes, nearly as much as a dispatcher takes by default


async def run_large(api: Api, size: int) -> None:
    """Run a job whose output has this many bytes, and read it."""
    submitted = await api.submit("faulty", fault("large", size))
    job = await api.wait(submitted.id, within=60.0)
    assert job.status == "succeeded", job.error
    output = job.file("result")
    assert (output.size, output.sha256) == (size, hashlib.sha256(bytes(size)).hexdigest())
    digest, seen = hashlib.sha256(), 0
    async with api.http.stream("GET", output.download_url or "") as response:
        async for piece in response.aiter_raw():
            digest.update(piece)
            seen += len(piece)
    assert (seen, digest.hexdigest()) == (size, output.sha256)


async def test_a_large_output_ends_its_job_while_others_end_theirs(api: Api, other_tenant: Api) -> None:
    large = asyncio.create_task(run_large(api, LARGE))
    ended = 0
    while not large.done():
        assert (await other_tenant.run("echo", {"x": [[1.0]]})).status == "succeeded"
        ended += 1
    await large
    assert ended > 1


async def test_a_larger_answer_than_a_dispatcher_takes_fails_its_job(api: Api) -> None:
    job = await api.run("faulty", fault("large", 65 * 1024 * 1024))
    assert (job.status, job.error and job.error.code) == ("failed", "too_large")
