"""A tenant's jobs, listed by page and filter."""

import asyncio
from collections.abc import Mapping

import pytest

from tests.acceptance.client import Api, Job, Jobs, read
from tests.acceptance.samples import fault

ECHO = {"x": [[1.0]]}
Query = Mapping[str, str | int | list[str]]


async def list_page(api: Api, **query: str | int) -> Jobs:
    return read(await api.http.get("/v1/jobs", params=query), 200, Jobs)


async def list_all(api: Api, **query: str | int) -> list[Job]:
    """All of them, a page at a time."""
    page = await list_page(api, **query)
    found = [*page.items]
    while page.next_cursor is not None:
        page = await list_page(api, **query, cursor=page.next_cursor)
        found += page.items
    return found


async def test_pages_miss_and_double_nothing_while_jobs_are_added(api: Api) -> None:
    first = await api.run("echo", ECHO, metadata={"page": 1})
    there = [first, *await asyncio.gather(*(api.submit("echo", ECHO) for _ in range(30)))]
    query: dict[str, str | int] = {"limit": 7, "created_after": first.created_at.isoformat()}
    page, found = await list_page(api, **query), list[Job]()
    while True:
        found += page.items
        if page.next_cursor is None:
            break
        assert len(page.items) == 7
        await api.submit("echo", ECHO)
        page = await list_page(api, **query, cursor=page.next_cursor)
    assert sorted(job.id for job in found) == sorted(job.id for job in there)
    assert [job.created_at for job in found] == sorted((job.created_at for job in found), reverse=True)
    oldest = found[-1]
    assert (oldest.id, oldest.metadata, oldest.outputs) == (first.id, {"page": 1}, None)
    assert oldest.status == "succeeded"


async def test_filters_combine_and_find_only_ones_own(api: Api, stranger: Api) -> None:
    failed = await api.run("faulty", fault("invalid"))
    await api.run("echo", ECHO)
    window = {"created_after": failed.created_at.isoformat()}
    assert [job.id for job in await list_all(api, status="failed", model="faulty", **window)] == [failed.id]
    assert failed.id not in [job.id for job in await list_all(api, model="echo", **window)]
    assert failed.id not in [job.id for job in await list_all(stranger, **window)]
    before = {"created_before": failed.created_at.isoformat()}
    assert failed.id not in [job.id for job in await list_all(api, status="failed", limit=1000, **before)]


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
async def test_a_wrong_or_unknown_parameter_is_pointed_at(api: Api, query: Query, pointer: str) -> None:
    answer = await api.http.get("/v1/jobs", params=query)
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]


@pytest.mark.parametrize(
    "path", ["webhooks", "dead-letters", "models", "jobs/job_1/deliveries", "webhooks/w/deliveries"]
)
async def test_no_list_takes_a_parameter_that_it_does_not_know(api: Api, path: str) -> None:
    answer = await api.http.get(f"/v1/{path}", params={"limits": 1})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "limits")


async def test_a_cursor_is_of_its_own_list_only(api: Api, stranger: Api) -> None:
    for _ in range(2):
        await api.submit("echo", ECHO)
    cursor = (await list_page(api, limit=1)).next_cursor
    assert cursor is not None
    read(await api.http.get("/v1/jobs", params={"cursor": cursor, "limit": 1000}), 200, Jobs)
    for asker, other in ((api, {"status": "failed"}), (api, {"model": "echo"}), (stranger, {})):
        answer = await asker.http.get("/v1/jobs", params={"cursor": cursor, **other})
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "cursor")
