"""The events of a job over a WebSocket."""

import httpx
import msgspec
import pytest
from websockets.asyncio.client import connect
from websockets.datastructures import HeadersLike
from websockets.exceptions import InvalidStatus

from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.stack import Stack
from tests.support.api.api_client import Api, Job
from tests.support.api.model_inputs import tokens

WORDS = [f"word{number}" for number in range(30)]
KEY = {"Authorization": f"Bearer {DEVELOPMENT_KEY}"}
LAST_EVENT_ID = "Last-Event-ID"


@pytest.fixture(scope="module")
async def job(api: Api) -> Job:
    """A job that has ended."""
    return await api.run("echo", {"x": [[1.0]]})


async def test_websocket_sends_the_same_events(stack: Stack, api: Api, http: httpx.AsyncClient) -> None:
    submitted = await api.submit("tokens", tokens(WORDS, 30))
    url = f"ws{stack.url.removeprefix('http')}/v1/jobs/{submitted.id}/events"
    async with connect(url, additional_headers=KEY) as socket:
        events_seen = [msgspec.json.decode(text) async for text in socket]
        assert socket.close_code == 1000
    assert events_seen == (await http.get(f"/v1/jobs/{submitted.id}/events")).json()["items"]
    last = events_seen[-2]["position"]
    by_query, by_header = f"?last_event_id={last}", {LAST_EVENT_ID: last}
    for query, header in ((by_query, {}), ("", by_header), (by_query, by_header)):
        async with connect(url + query, additional_headers=KEY | header) as socket:
            assert msgspec.json.decode(await socket.recv()) == events_seen[-1]


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/v1/jobs/{job}/events", {}, 401),
        ("/v1/jobs/job_01m7ykkne6etvsdz4ehv4dsk25/events", KEY, 404),
        ("/v1/jobs/{job}/events?last_event_id=x", KEY, 422),
        ("/v1/jobs/{job}/events?last_event_id=9.9", KEY, 422),
        ("/v1/jobs/{job}/events", [*KEY.items(), (LAST_EVENT_ID, "9.9")], 422),
        ("/v1/jobs/{job}/events", [*KEY.items(), (LAST_EVENT_ID, "1.0"), (LAST_EVENT_ID, "1.1")], 422),
        ("/v1/jobs/{job}/events?last_event_id=1.0", [*KEY.items(), (LAST_EVENT_ID, "1.1")], 422),
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
async def test_websocket_is_refused_like_a_request(
    stack: Stack, job: Job, path: str, headers: HeadersLike, status: int
) -> None:
    url = f"ws{stack.url.removeprefix('http')}{path.format(job=job.id)}"
    with pytest.raises(InvalidStatus) as caught:
        async with connect(url, additional_headers=headers):
            pass
    assert caught.value.response.status_code == status
    assert msgspec.json.decode(caught.value.response.body)["status"] == status


async def test_websocket_path_allows_the_methods_of_the_list(http: httpx.AsyncClient) -> None:
    response = await http.put("/v1/jobs/job_01m7ykkne6etvsdz4ehv4dsk25/events")
    assert (response.status_code, response.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
