"""What happens to a job is told as it happens, once and in order, to whoever listens, from wherever they left off."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing

import httpx
import msgspec
import pytest
from websockets.asyncio.client import connect
from websockets.datastructures import HeadersLike
from websockets.exceptions import InvalidStatus

from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.stack import Stack
from tests.acceptance.client import Api, Job, read
from tests.acceptance.listener import Told, hear, listen
from tests.acceptance.metrics import read_metric, wait_for_metric
from tests.acceptance.samples import fault, work
from tests.acceptance.serving import another_gateway
from tests.acceptance.waiting import eventually

WORDS = [f"word{number}" for number in range(30)]
ENDED = "job.succeeded"
KEY = {"Authorization": f"Bearer {DEVELOPMENT_KEY}"}
LAST = "Last-Event-ID"
AT_ONCE = {"initial_delay": 0, "max_delay": 0}


def say(delay_ms: int, words: list[str] = WORDS) -> dict[str, object]:
    return {"text": [" ".join(words)], "delay_ms": [delay_ms]}


@pytest.fixture
async def http(stack: Stack) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=stack.url, headers=KEY, timeout=30) as client:
        yield client


def check_whole(told: list[Told], job: Job) -> None:
    """Each event once and in order, and the responses are the outputs."""
    assert [each.type for each in told] == ["job.queued", "job.started", *["job.output"] * len(WORDS), ENDED]
    assert [word for each in told[2:-1] for word in each.tokens] == WORDS
    outputs = [output for each in told[2:-1] for output in each.data["outputs"]]
    assert outputs == msgspec.to_builtins(job.outputs)
    assert told[-1].data["outputs"] == outputs
    assert len({each.id for each in told}) == len(told)


async def test_each_response_is_told_before_the_model_has_the_next(api: Api, http: httpx.AsyncClient) -> None:
    """By the clock of this machine, on which both are; the pause between two is long enough for a busy one."""
    submitted = await api.submit("tokens", say(2000, ["$now"] * 3))
    order: list[tuple[float, str]] = []
    async for each in listen(http, submitted.id):
        if each.type == "job.output":
            number = len(order) // 2
            order += [(float(each.tokens[0]), f"said {number}"), (time.time(), f"heard {number}")]
    steps = [f"{step} {number}" for number in range(3) for step in ("said", "heard")]
    assert [step for _, step in sorted(order)] == steps


async def test_a_listener_goes_on_where_it_left_off(api: Api, http: httpx.AsyncClient) -> None:
    submitted = await api.submit("tokens", say(20))
    whole = await hear(http, submitted.id)
    for index in (0, 1, 2, 15, len(whole) - 2):
        assert await hear(http, submitted.id, whole[index].id) == whole[index + 1 :]
    headers = {"Accept": "text/event-stream", LAST: whole[-1].id}
    answer = await http.get(f"/v1/jobs/{submitted.id}/events", headers=headers)
    assert (answer.status_code, answer.content) == (204, b"")


async def test_a_stream_outlives_its_gateway(breakable: Stack, api: Api, http: httpx.AsyncClient) -> None:
    """The client hears the rest from another one, from behind what it has heard."""
    submitted = await api.submit("tokens", say(200))
    told: list[Told] = []
    async with (
        another_gateway(breakable) as second,
        httpx.AsyncClient(base_url=second.url, headers=KEY, timeout=30) as other,
    ):
        stopping: asyncio.Task[int | None] | None = None
        async with aclosing(listen(http, submitted.id)) as events:
            async for each in events:
                told.append(each)
                if len(told) == 5:
                    stopping = asyncio.create_task(asyncio.to_thread(breakable.gateways[0].stop))
        assert stopping is not None
        assert await stopping == 0
        assert told[-1].type == "job.output"  # ended early, not by the end of the job
        told += await hear(other, submitted.id, told[-1].id)
        check_whole(told, read(await other.get(f"/v1/jobs/{submitted.id}"), 200, Job))


async def test_every_gateway_tells_the_same(stack: Stack, api: Api, http: httpx.AsyncClient) -> None:
    async with (
        another_gateway(stack) as second,
        httpx.AsyncClient(base_url=second.url, headers=KEY, timeout=30) as other,
    ):
        submitted = await api.submit("tokens", say(30))
        here, there = await asyncio.gather(hear(http, submitted.id), hear(other, submitted.id))
    assert here == there
    check_whole(here, await api.get(submitted.id))


async def test_attempts_and_new_lives_are_told(api: Api, http: httpx.AsyncClient) -> None:
    submitted = await api.submit("faulty", fault("raise"), retry={"max_attempts": 2, **AT_ONCE})
    told = await hear(http, submitted.id)
    assert [each.type for each in told] == ["job.queued", "job.started"] * 2 + ["job.failed"]
    assert [each.data.get("attempt") for each in told] == [None, 1, 1, 2, 2]
    assert told[2].data["error"]["code"] == "inference_failed"
    read(await http.post(f"/v1/jobs/{submitted.id}/retry"), 202, Job)
    again = await hear(http, submitted.id, told[-1].id)
    assert [each.type for each in again] == [each.type for each in told]
    items = (await http.get(f"/v1/jobs/{submitted.id}/events")).json()["items"]
    assert [each["id"] for each in items] == [each.id for each in (*told, *again)]
    assert [each["timestamp"] for each in items] == sorted(each["timestamp"] for each in items)


async def test_a_cancellation_is_told(api: Api, http: httpx.AsyncClient) -> None:
    submitted = await api.submit("work", work(30_000))
    told: list[str] = []
    async with aclosing(listen(http, submitted.id)) as events:
        async for each in events:
            told.append(each.type)
            if each.type == "job.started":
                read(await http.post(f"/v1/jobs/{submitted.id}/cancel"), 202, Job)
    assert told == ["job.queued", "job.started", "job.canceling", "job.canceled"]


async def test_a_list_comes_in_pages(api: Api, http: httpx.AsyncClient) -> None:
    job = await api.run("tokens", say(0))
    path = f"/v1/jobs/{job.id}/events"
    whole = (await http.get(path)).json()
    assert whole["next_cursor"] is None
    items, cursor, pages = [], None, 0
    while pages == 0 or cursor is not None:
        page = (await http.get(path, params={"limit": 7} | ({"cursor": cursor} if cursor else {}))).json()
        items += page["items"]
        cursor, pages = page["next_cursor"], pages + 1
    assert items == whole["items"]
    assert pages == -(-len(items) // 7)
    assert items[-1]["data"]["id"] == job.id


async def test_large_responses_come_a_few_at_a_time(api: Api, http: httpx.AsyncClient) -> None:
    words = [f"{number}".rjust(300_000, "x") for number in range(20)]
    job = await api.run("tokens", say(0, words))
    heard = await hear(http, job.id)
    assert [word for each in heard for word in (each.tokens if each.type == "job.output" else [])] == words
    listed, cursor, pages = [], None, 0
    while pages == 0 or cursor:
        query = {"limit": 1000} | ({"cursor": cursor} if cursor else {})
        answer = await http.get(f"/v1/jobs/{job.id}/events", params=query)
        assert len(answer.content) < 2_000_000
        listed += [each["id"] for each in answer.json()["items"]]
        cursor, pages = answer.json()["next_cursor"], pages + 1
    assert (listed, pages > 3) == ([each.id for each in heard], True)


async def test_the_same_is_told_over_a_websocket(stack: Stack, api: Api, http: httpx.AsyncClient) -> None:
    submitted = await api.submit("tokens", say(30))
    url = f"ws{stack.url.removeprefix('http')}/v1/jobs/{submitted.id}/events"
    async with connect(url, additional_headers=KEY) as socket:
        heard = [msgspec.json.decode(text) async for text in socket]
        assert socket.close_code == 1000
    assert heard == (await http.get(f"/v1/jobs/{submitted.id}/events")).json()["items"]
    last = heard[-2]["id"]
    for query, header in ((f"?last_event_id={last}", {}), ("", {LAST: last}), (f"?last_event_id={last}", {LAST: last})):
        async with connect(url + query, additional_headers=KEY | header) as socket:
            assert msgspec.json.decode(await socket.recv()) == heard[-1]


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/v1/jobs/{job}/events", {}, 401),
        ("/v1/jobs/job_01m7ykkne6etvsdz4ehv4dsk25/events", KEY, 404),
        ("/v1/jobs/{job}/events?last_event_id=x", KEY, 422),
        ("/v1/jobs/{job}/events?last_event_id=9.9", KEY, 422),
        ("/v1/jobs/{job}/events", [*KEY.items(), (LAST, "9.9")], 422),
        ("/v1/jobs/{job}/events", [*KEY.items(), (LAST, "1.0"), (LAST, "1.1")], 422),
        ("/v1/jobs/{job}/events?last_event_id=1.0", [*KEY.items(), (LAST, "1.1")], 422),
        ("/v1/jobs/{job}/events?after=1", KEY, 422),
        ("/v1/jobs", KEY, 404),
        ("/nowhere", {}, 404),
    ],
    ids=[
        "no key",
        "no job",
        "no event",
        "none of its events",
        "none by header",
        "two headers",
        "two events",
        "no parameter",
        "no WebSocket",
        "no path",
    ],
)
async def test_a_websocket_is_refused_as_a_request_is(
    stack: Stack, api: Api, path: str, headers: HeadersLike, status: int
) -> None:
    job = await api.run("echo", {"x": [[1.0]]})
    url = f"ws{stack.url.removeprefix('http')}{path.format(job=job.id)}"
    with pytest.raises(InvalidStatus) as caught:
        async with connect(url, additional_headers=headers):
            pass
    assert caught.value.response.status_code == status
    assert msgspec.json.decode(caught.value.response.body)["status"] == status


async def test_whoever_goes_away_takes_up_no_room(stack: Stack, api: Api) -> None:
    metrics = f"{stack.url}/metrics"
    submitted = await api.submit("work", work(60_000))
    path = f"/v1/jobs/{submitted.id}"
    async with (
        httpx.AsyncClient(base_url=stack.url, headers=KEY, timeout=30) as http,
        connect(f"ws{stack.url.removeprefix('http')}{path}/events", additional_headers=KEY),
    ):
        waiting = asyncio.create_task(http.get(f"{path}?wait=60"))
        listening = asyncio.create_task(hear(http, submitted.id))
        await wait_for_metric(metrics, "charonia_watchers", 3)
        for task in (waiting, listening):
            task.cancel()
        await asyncio.wait([waiting, listening])

    async def look() -> bool:
        return await read_metric(metrics, "charonia_watchers") == 0

    await eventually(look, "nobody is waited for")
    read(await api.http.post(f"{path}/cancel"), 202, Job)


async def test_a_websockets_path_has_the_methods_of_a_list(http: httpx.AsyncClient) -> None:
    answer = await http.put("/v1/jobs/job_01m7ykkne6etvsdz4ehv4dsk25/events")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD, OPTIONS")


async def test_a_stranger_hears_nothing(api: Api, stranger: Api) -> None:
    job = await api.run("echo", {"x": [[1.0]]})
    for accept in ("application/json", "text/event-stream"):
        answer = await stranger.http.get(f"/v1/jobs/{job.id}/events", headers={"Accept": accept})
        assert (answer.status_code, answer.json()["type"]) == (404, "urn:charonia:problem:not_found")


@pytest.mark.parametrize("wrong", ["x", "1", "1.", "-1.0", "1.2147483648", "1.0.0", "9" * 30 + ".0"])
async def test_only_ids_of_events_can_be_gone_on_from(api: Api, wrong: str) -> None:
    job = await api.run("echo", {"x": [[1.0]]})
    headers = {"Accept": "text/event-stream", LAST: wrong}
    answer = await api.http.get(f"/v1/jobs/{job.id}/events", headers=headers)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, LAST)
    answer = await api.http.get(f"/v1/jobs/{job.id}/events", params={"cursor": wrong})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "cursor")


async def test_a_stream_goes_on_from_an_event_of_its_own_job_only(api: Api) -> None:
    """Behind any other there would be nothing, not even its end."""
    job = await api.run("echo", {"x": [[1.0]]})
    for header, query, wrong in [({LAST: "9.9"}, {}, LAST), ({}, {"cursor": "1.0"}, "cursor")]:
        headers = {"Accept": "text/event-stream", **header}
        answer = await api.http.get(f"/v1/jobs/{job.id}/events", headers=headers, params=query)
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, wrong)
