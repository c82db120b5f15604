"""Where a webhook is too large for its outputs: a URL that gives them to whoever has it, for a while."""

from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs

import httpx
import pytest

from common import ids
from common.grants import VALID, Grants
from deploy.local.services import encryption_key
from deploy.local.stack import Stack
from tests.acceptance.client import Api, Job

ECHO = {"x": [[1.0]]}


@pytest.fixture
async def job(api: Api) -> Job:
    return await api.run("echo", ECHO)


def sign(stack: Stack, job: Job, age: timedelta) -> dict[str, str]:
    """The query that was signed for a job so long ago."""
    parsed = ids.parse(ids.Kind.JOB, job.id)
    assert parsed is not None
    grants = Grants([encryption_key(stack.settings.stack_dir)])
    return {name: value for name, (value,) in parse_qs(grants.sign(parsed, datetime.now(UTC) - age)).items()}


async def fetch(stack: Stack, job: Job, query: dict[str, str]) -> httpx.Response:
    async with httpx.AsyncClient(base_url=stack.url) as anybody:
        return await anybody.get(f"/v1/jobs/{job.id}/outputs", params=query)


async def test_the_url_gives_the_outputs_until_it_expires(stack: Stack, api: Api, job: Job) -> None:
    fresh = await fetch(stack, job, sign(stack, job, timedelta()))
    assert fresh.json() == {
        "id": job.id,
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [1, 1], "data": [2.0]}],
    }
    last = await fetch(stack, job, sign(stack, job, VALID - timedelta(minutes=1)))
    assert (last.status_code, last.json()) == (200, fresh.json())
    expired = await fetch(stack, job, sign(stack, job, VALID + timedelta(seconds=2)))
    assert (expired.status_code, expired.json()["type"]) == (403, "urn:charonia:problem:forbidden")
    assert "expired" in expired.json()["detail"]
    own = await api.http.get(f"/v1/jobs/{job.id}/outputs")  # with a key
    assert (own.status_code, own.json()) == (200, fresh.json())


async def test_nobody_can_make_such_a_url(stack: Stack, api: Api, stranger: Api, job: Job) -> None:
    signed, other = sign(stack, job, timedelta()), await api.run("echo", ECHO)
    forged = [
        (job, signed | {"expires": str(int(signed["expires"]) + 1)}),
        (job, signed | {"expires": "9" * 30}),
        (job, signed | {"signature": signed["signature"][:-1]}),
        (job, signed | {"signature": "ü"}),
        (other, signed),
    ]
    for target, query in forged:
        answer = await fetch(stack, target, query)
        assert (answer.status_code, answer.json()["type"]) == (403, "urn:charonia:problem:forbidden")
    for query in ({}, {"signature": signed["signature"]}, {"expires": signed["expires"]}):
        assert (await fetch(stack, job, query)).status_code == 401
    assert (await stranger.http.get(f"/v1/jobs/{job.id}/outputs")).status_code == 404
