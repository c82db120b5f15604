"""HTTP semantics: HEAD, content types, and repeated headers."""

import gzip

import httpx
import pytest

from deploy.local.stack import Stack
from tests.support.api.api_client import Api, Job, read

ECHO = b'{"model": "echo", "inputs": {"x": [[1]]}}'
KEY = "Idempotency-Key"
ONE = httpx.Limits(max_connections=1)


@pytest.mark.parametrize("path", ["/v1/models", "/v1/jobs/none", "/healthz", "/docs", "/nowhere", "/v2"])
async def test_head_has_the_status_and_headers_of_get(api: Api, path: str) -> None:
    got, head = await api.http.get(path), await api.http.head(path)
    assert (head.status_code, head.content) == (got.status_code, b"")
    assert head.headers["content-type"] == got.headers["content-type"]
    assert got.content


async def test_head_of_a_stream_ends(api: Api, stack: Stack) -> None:
    """Both requests share a connection. The second response shows that no body followed the first."""
    job = await api.submit("work", {"ms": [[60_000]]})
    async with httpx.AsyncClient(base_url=stack.url, headers=api.http.headers, limits=ONE, timeout=30) as http:
        response = await http.head(f"/v1/jobs/{job.id}/events", headers={"Accept": "text/event-stream"})
        assert (response.status_code, response.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        read(await http.post(f"/v1/jobs/{job.id}/cancel"), 202, Job)


async def test_allow_header_includes_head(api: Api) -> None:
    assert (await api.http.options("/v1/models")).headers["allow"] == "GET, HEAD, OPTIONS"
    refused = await api.http.put("/v1/jobs")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, OPTIONS, POST")


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/batches", "/v1/webhooks"])
@pytest.mark.parametrize("header", [{"Content-Type": "text/csv"}, {"Content-Encoding": "gzip"}], ids=["type", "gzip"])
async def test_bodies_that_are_not_plain_json_are_refused_by_their_headers(
    api: Api, path: str, header: dict[str, str]
) -> None:
    response = await api.http.post(path, content=gzip.compress(ECHO), headers=header)
    assert (response.status_code, response.json()["type"]) == (415, "urn:charonia:problem:unsupported_media_type")


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/batches"])
async def test_two_idempotency_keys_are_refused(api: Api, path: str) -> None:
    response = await api.http.post(path, content=ECHO, headers=[(KEY, "one"), (KEY, "two")])
    assert (response.status_code, response.json()["errors"]) == (
        422,
        [{"pointer": KEY, "detail": "given more than once"}],
    )


async def test_repeated_prefer_headers_are_combined(api: Api) -> None:
    response = await api.http.post(
        "/v1/jobs", content=ECHO, headers=[("Prefer", "respond-async"), ("Prefer", "wait=20")]
    )
    assert read(response, 200, Job).status == "succeeded"
    assert response.headers["preference-applied"] == "wait=20"


async def test_times_without_a_zone_are_refused_in_filters(api: Api) -> None:
    at = "2026-01-01T00:00:00"
    for path in ("/v1/jobs", "/v1/dead-letters"):
        response = await api.http.get(path, params={"created_after": at})
        assert (response.status_code, response.json()["errors"][0]["pointer"]) == (422, "created_after")
        assert (await api.http.get(path, params={"created_after": f"{at}Z"})).status_code == 200


async def test_the_root_says_what_this_is_and_where_to_go_on(stack: Stack) -> None:
    """Without a key: it is the first thing that a new user opens."""
    async with httpx.AsyncClient(base_url=stack.url, timeout=30) as http:
        response = await http.get("/")
        assert response.status_code == 200
        welcome = response.json()
        assert (welcome["name"], "Triton" in welcome["description"]) == ("charonia", True)
        assert "Authorization: Bearer" in welcome["authentication"]
        for name in ("console", "docs", "openapi", "health"):
            assert (await http.get(welcome[name])).status_code == 200


@pytest.mark.parametrize("path", ["/v1/models/", "/v1/models/echo/", "/v1/jobs/", "/healthz/"])
async def test_a_trailing_slash_makes_no_difference(api: Api, path: str) -> None:
    """Without a redirect: curl does not follow one, and others repeat a POST as a GET."""
    with_slash, without = await api.http.get(path), await api.http.get(path.rstrip("/"))
    assert (with_slash.status_code, with_slash.json().keys()) == (200, without.json().keys())


@pytest.mark.parametrize(
    ("path", "pointer"),
    [
        ("/v1/jobs?status=null", "status"),
        ("/v1/audit-log?action=Null", "action"),
        ("/v1/jobs/job_00000000000000000000000000/outputs?expires=null", "expires"),
        ("/v1/jobs/job_00000000000000000000000000/outputs?expire=1", "expire"),
    ],
)
async def test_parameters_that_would_select_everything_are_refused(api: Api, path: str, pointer: str) -> None:
    """Litestar takes the text "null" as None, which is a filter that was not given."""
    response = await api.http.get(path)
    assert (response.status_code, response.json()["errors"][0]["pointer"]) == (422, pointer)
    assert (await api.http.get("/v1/jobs?model=null")).status_code == 200  # a name


async def test_a_list_of_events_refuses_a_wrong_last_event_id(api: Api) -> None:
    job = await api.submit("echo", {"x": [[1]]})
    response = await api.http.get(f"/v1/jobs/{job.id}/events", headers={"Last-Event-ID": "none"})
    assert (response.status_code, response.json()["errors"][0]["pointer"]) == (422, "Last-Event-ID")
