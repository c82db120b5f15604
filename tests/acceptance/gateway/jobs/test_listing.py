"""A tenant's jobs are listed by page and filter."""

import asyncio
from collections.abc import Mapping

import pytest

from tests.support.api.api_client import Api, Job, Jobs, read
from tests.support.api.model_inputs import fault

ECHO = {"x": [[1.0]]}
Query = Mapping[str, str | int | list[str]]


async def list_page(api: Api, **query: str | int) -> Jobs:
    return read(await api.http.get("/v1/jobs", params=query), 200, Jobs)


async def test_pages_neither_skip_nor_repeat_jobs_while_jobs_are_added(api: Api) -> None:
    first = await api.run("echo", ECHO, metadata={"page": 1})
    expected = [first, *await asyncio.gather(*(api.submit("echo", ECHO) for _ in range(30)))]
    query: dict[str, str | int] = {"limit": 7, "created_after": first.created_at.isoformat()}
    page, found = await list_page(api, **query), list[Job]()
    while True:
        found += page.items
        if page.next_cursor is None:
            break
        assert len(page.items) == 7
        await api.submit("echo", ECHO)
        page = await list_page(api, **query, cursor=page.next_cursor)
    assert sorted(job.id for job in found) == sorted(job.id for job in expected)
    assert [job.created_at for job in found] == sorted((job.created_at for job in found), reverse=True)
    oldest = found[-1]
    assert (oldest.id, oldest.metadata, oldest.outputs) == (first.id, {"page": 1}, None)
    assert (oldest.status, oldest.outputs_omitted) == ("succeeded", "in_lists")
    outputs = (await api.http.get(oldest.outputs_url or "")).json()
    assert outputs["id"] == first.id
    assert [each["data"] for each in outputs["outputs"]] == [each.data for each in first.outputs or []]


async def test_filters_combine_and_find_only_jobs_of_the_tenant(api: Api, other_tenant: Api) -> None:
    failed = await api.run("faulty", fault("invalid"))
    await api.run("echo", ECHO)
    window = {"created_after": failed.created_at.isoformat()}
    assert [job.id for job in await api.list_all_jobs(status="failed", model="faulty", **window)] == [failed.id]
    assert failed.id not in [job.id for job in await api.list_all_jobs(model="echo", **window)]
    assert failed.id not in [job.id for job in await other_tenant.list_all_jobs(**window)]
    before = {"created_before": failed.created_at.isoformat()}
    assert failed.id not in [job.id for job in await api.list_all_jobs(status="failed", limit=1000, **before)]


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ({"cursor": "nonsense"}, "cursor"),
        ({"limit": 0}, "limit"),
        ({"limit": 1001}, "limit"),
        ({"status": "done"}, "status"),
        ({"created_after": "yesterday"}, "created_after"),
        ({"model": ""}, "model"),
        ({"states": "failed"}, "states"),
        ({"status": ["queued", "failed"]}, "status"),
    ],
)
async def test_problem_points_at_an_invalid_or_unknown_parameter(api: Api, query: Query, pointer: str) -> None:
    response = await api.http.get("/v1/jobs", params=query)
    assert response.status_code == 422
    assert [error["pointer"] for error in response.json()["errors"]] == [pointer]


@pytest.mark.parametrize(
    "path", ["webhooks", "dead-letters", "models", "jobs/job_1/deliveries", "webhooks/w/deliveries"]
)
async def test_lists_refuse_unknown_parameters(api: Api, path: str) -> None:
    response = await api.http.get(f"/v1/{path}", params={"limits": 1})
    assert (response.status_code, response.json()["errors"][0]["pointer"]) == (422, "limits")


async def test_cursor_of_another_list_is_refused(api: Api, other_tenant: Api) -> None:
    for _ in range(2):
        await api.submit("echo", ECHO)
    cursor = (await list_page(api, limit=1)).next_cursor
    assert cursor is not None
    read(await api.http.get("/v1/jobs", params={"cursor": cursor, "limit": 1000}), 200, Jobs)
    for client, other in ((api, {"status": "failed"}), (api, {"model": "echo"}), (other_tenant, {})):
        response = await client.http.get("/v1/jobs", params={"cursor": cursor, **other})
        assert (response.status_code, response.json()["errors"][0]["pointer"]) == (422, "cursor")
