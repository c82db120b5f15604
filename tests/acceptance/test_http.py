"""What HTTP itself asks for: HEAD, types of bodies, and headers that come more than once."""

import gzip

import httpx
import pytest

from deploy.local.stack import Stack
from tests.acceptance.client import Api, Job, read

ECHO = b'{"model": "echo", "inputs": {"x": [[1]]}}'
KEY = "Idempotency-Key"
ONE = httpx.Limits(max_connections=1)


@pytest.mark.parametrize("path", ["/v1/models", "/v1/jobs/none", "/healthz", "/docs", "/nowhere", "/v2"])
async def test_head_is_answered_as_get_is(api: Api, path: str) -> None:
    got, asked = await api.http.get(path), await api.http.head(path)
    assert (asked.status_code, asked.content) == (got.status_code, b"")
    assert asked.headers["content-type"] == got.headers["content-type"]
    assert got.content


async def test_head_of_a_stream_ends(api: Api, stack: Stack) -> None:
    """On one connection, so that the next answer shows that nothing came behind the first."""
    job = await api.submit("work", {"ms": [[60_000]]})
    async with httpx.AsyncClient(base_url=stack.url, headers=api.http.headers, limits=ONE) as http:
        answer = await http.head(f"/v1/jobs/{job.id}/events", headers={"Accept": "text/event-stream"})
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        read(await http.post(f"/v1/jobs/{job.id}/cancel"), 202, Job)


async def test_head_is_among_the_methods(api: Api) -> None:
    assert (await api.http.options("/v1/models")).headers["allow"] == "GET, HEAD, OPTIONS"
    refused = await api.http.put("/v1/jobs")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, OPTIONS, POST")


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/batches", "/v1/webhooks"])
@pytest.mark.parametrize("header", [{"Content-Type": "text/csv"}, {"Content-Encoding": "gzip"}], ids=["type", "gzip"])
async def test_what_is_not_plain_json_is_refused_by_its_header(api: Api, path: str, header: dict[str, str]) -> None:
    answer = await api.http.post(path, content=gzip.compress(ECHO), headers=header)
    assert (answer.status_code, answer.json()["type"]) == (415, "urn:charonia:problem:unsupported_media_type")


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/batches"])
async def test_two_idempotency_keys_are_refused(api: Api, path: str) -> None:
    answer = await api.http.post(path, content=ECHO, headers=[(KEY, "one"), (KEY, "two")])
    assert (answer.status_code, answer.json()["errors"]) == (422, [{"pointer": KEY, "detail": "is given twice"}])


async def test_the_lines_of_a_preference_are_one_list(api: Api) -> None:
    answer = await api.http.post("/v1/jobs", content=ECHO, headers=[("Prefer", "respond-async"), ("Prefer", "wait=20")])
    assert read(answer, 200, Job).status == "succeeded"
    assert answer.headers["preference-applied"] == "wait=20"


async def test_a_time_without_a_zone_is_refused_in_a_filter_as_in_a_body(api: Api) -> None:
    at = "2026-01-01T00:00:00"
    for path in ("/v1/jobs", "/v1/dead-letters"):
        answer = await api.http.get(path, params={"created_after": at})
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "created_after")
        assert (await api.http.get(path, params={"created_after": f"{at}Z"})).status_code == 200
