"""A list has the items of all its pages."""

from collections.abc import Callable, Iterable
from typing import Any

import httpx
import pytest
from charonia import AttemptData, Charonia, DeliveryData
from msgspec import json, structs

from tests.support.api.client_jobs import BEGINNING, make_succeeded
from tests.support.api.fake_batches import MODEL

ATTEMPT = AttemptData(
    attempt=1,
    count=1,
    status="failed",
    model="1",
    worker="w",
    started_at=BEGINNING,
    finished_at=BEGINNING,
    duration_ms=1,
    error=None,
)
DELIVERY = DeliveryData(
    id="1",
    event_id="evt_1",
    event_type="x",
    job_id=None,
    webhook_id=None,
    url="u",
    status="pending",
    created_at=BEGINNING,
    next_attempt_at=None,
    finished_at=None,
    attempts=[],
)
LISTS: dict[str, tuple[Callable[[Charonia], Iterable[Any]], Any, str]] = {
    "/v1/models": (lambda client: client.models.list(), MODEL, "name"),
    "/v1/jobs/job_1/attempts": (lambda client: client.jobs.get("job_1").attempts(), ATTEMPT, "model"),
    "/v1/jobs/job_1/deliveries": (lambda client: client.jobs.get("job_1").deliveries(), DELIVERY, "id"),
}


@pytest.mark.parametrize("path", LISTS)
def test_a_list_has_the_items_of_all_pages(path: str) -> None:
    read, item, name = LISTS[path]

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path != path:
            return httpx.Response(200, content=json.encode(make_succeeded([])))
        page = {"": ("1", "c=2"), "c=2": ("2", None)}[request.url.params.get("cursor", "")]
        body = {"items": [structs.replace(item, **{name: page[0]})], "next_cursor": page[1]}
        return httpx.Response(200, content=json.encode(body))

    with Charonia("http://gateway", "k", http=httpx.Client(transport=httpx.MockTransport(answer))) as client:
        assert [getattr(each, name) for each in read(client)] == ["1", "2"]
