"""Webhooks replace large outputs by a signed URL, which works without a key until it expires."""

from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from common import ids
from common.security.signed_urls import VALID, UrlSigner
from deploy.local.services import url_key
from deploy.local.stack import Stack
from tests.support.api.api_client import Api, Job

ECHO = {"x": [[1.0]]}


@pytest.fixture
async def job(api: Api) -> Job:
    return await api.run("echo", ECHO)


def sign(stack: Stack, job: Job, age: timedelta) -> dict[str, str]:
    """Return the query of a URL that was signed for a job this long ago."""
    parsed = ids.parse(ids.Kind.JOB, job.id)
    assert parsed is not None
    signer = UrlSigner([url_key(stack.settings.stack_dir)])
    return {name: value for name, (value,) in parse_qs(signer.sign(parsed, datetime.now(UTC) - age)).items()}


async def fetch(stack: Stack, job: Job, query: dict[str, str]) -> httpx.Response:
    async with httpx.AsyncClient(base_url=stack.url, timeout=30) as http:
        return await http.get(f"/v1/jobs/{job.id}/outputs", params=query)


async def test_signed_url_returns_the_outputs_until_it_expires(stack: Stack, api: Api, job: Job) -> None:
    current = await fetch(stack, job, sign(stack, job, timedelta()))
    assert current.json() == {
        "id": job.id,
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [1, 1], "data": [2.0]}],
    }
    nearly_expired = await fetch(stack, job, sign(stack, job, VALID - timedelta(minutes=1)))
    assert (nearly_expired.status_code, nearly_expired.json()) == (200, current.json())
    expired = await fetch(stack, job, sign(stack, job, VALID + timedelta(seconds=2)))
    assert (expired.status_code, expired.json()["type"]) == (403, "urn:charonia:problem:forbidden")
    assert "expired" in expired.json()["detail"]
    own = await api.http.get(f"/v1/jobs/{job.id}/outputs")  # with a key
    assert (own.status_code, own.json()) == (200, current.json())


async def test_urls_of_files_expire_with_the_signed_url(stack: Stack, api: Api) -> None:
    job = await api.run("echo", {"x": [[1.0] * 100_000]})  # its output becomes a file
    signed = sign(stack, job, VALID - timedelta(hours=1))
    (output,) = (await fetch(stack, job, signed)).json()["outputs"]
    assert parse_qs(urlsplit(output["download_url"]).query)["expires"] == [signed["expires"]]
    async with httpx.AsyncClient(timeout=30) as anybody:
        content = await anybody.get(output["download_url"])
    assert (content.status_code, len(content.content)) == (200, 400_000)
    assert content.headers["Content-Security-Policy"] == "sandbox; default-src 'none'"
    assert content.headers["Cross-Origin-Resource-Policy"] == "same-origin"


async def test_forged_urls_are_refused(stack: Stack, api: Api, other_tenant: Api, job: Job) -> None:
    signed, other = sign(stack, job, timedelta()), await api.run("echo", ECHO)
    forged = [
        (job, signed | {"expires": str(int(signed["expires"]) + 1)}),
        (job, signed | {"expires": "9" * 30}),
        (job, signed | {"signature": signed["signature"][:-1]}),
        (job, signed | {"signature": "ü"}),
        (other, signed),
    ]
    for target, query in forged:
        response = await fetch(stack, target, query)
        assert (response.status_code, response.json()["type"]) == (403, "urn:charonia:problem:forbidden")
    for query in ({}, {"signature": signed["signature"]}, {"expires": signed["expires"]}):
        assert (await fetch(stack, job, query)).status_code == 401
    assert (await other_tenant.http.get(f"/v1/jobs/{job.id}/outputs")).status_code == 404
