"""What a newer gateway sends is read: unknown values, and events of an unknown type or form."""

import time
from typing import Any

import charonia
import httpx
import pytest
from charonia.events import parse_fed, parse_streamed
from charonia.results import make_done
from charonia.schemas import BatchData, BatchLine
from msgspec import json, structs, to_builtins

from common.security import webhook_signatures
from tests.support.api.client_jobs import BEGINNING, make_succeeded

AT = "2026-11-21T02:53:41Z"
JOB = to_builtins(make_succeeded([]))
BATCH = {"id": "batch_1", "total": 3, "accepted": 3, "created_at": AT, "finished_at": AT, "counts": {"skipped": 3}}
DELIVERY: dict[str, Any] = {
    "id": "dlv_1",
    "event_id": "evt_1",
    "event_type": "x",
    "job_id": None,
    "webhook_id": None,
    "url": "u",
}
DELIVERY |= {"created_at": AT, "next_attempt_at": None, "finished_at": None, "attempts": []}


def verify(body: bytes) -> charonia.Event:
    secret, now = webhook_signatures.new_secret("hmac"), int(time.time())
    signature = webhook_signatures.sign([secret], "dlv_1", now, body)
    headers = {"webhook-id": "dlv_1", "webhook-timestamp": str(now), "webhook-signature": signature}
    return charonia.verify(body, headers, secret)


def make_body(kind: str, data: Any) -> bytes:
    return json.encode({"type": kind, "timestamp": AT, "data": data})


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        ("job.failed", JOB | {"status": "skipped", "priority": "urgent"}, charonia.JobEvent),
        ("batch.completed", BATCH | {"status": "skipped"}, charonia.BatchEvent),
        ("delivery.exhausted", DELIVERY | {"status": "skipped"}, charonia.DeliveryEvent),
    ],
)
def test_an_unknown_value_is_read(kind: str, data: dict[str, Any], expected: type[charonia.Event]) -> None:
    for event in (verify(make_body(kind, data)), parse_fed("evt_1.7", make_body(kind, data))):
        assert isinstance(event, expected)
        assert not isinstance(event.data, dict)
        assert event.data.status == "skipped"


@pytest.mark.parametrize("kind", ["batch.completed", "delivery.exhausted", "job.failed"])
def test_what_cannot_be_read_as_its_type_is_as_it_came(kind: str) -> None:
    data = {"id": 7, "status": "succeeded"}
    event = verify(make_body(kind, data))
    assert isinstance(event, charonia.UnknownEvent)
    assert (event.id, event.type, event.data) == ("dlv_1", kind, data)


def test_only_the_payload_of_a_job_may_be_erased() -> None:
    data = {"id": "x", "status": "failed"}
    assert isinstance(verify(make_body("job.failed", data)), charonia.ProgressEvent)
    assert isinstance(verify(make_body("batch.completed", data)), charonia.UnknownEvent)


def test_an_event_in_the_form_of_openai_is_not_taken_for_ours() -> None:
    body = {"object": "event", "id": "evt_1", "type": "batch.completed", "created_at": 17, "data": {"id": "batch_1"}}
    event = verify(json.encode(body))
    assert isinstance(event, charonia.UnknownEvent)
    assert (event.id, event.type, event.timestamp, event.data) == ("dlv_1", "batch.completed", None, body["data"])
    whole = json.encode(body | {"timestamp": AT, "data": BATCH | {"status": "completed"}})
    assert isinstance(verify(whole), charonia.UnknownEvent)


@pytest.mark.parametrize("body", [b"{}", b'{"type": ["x"], "timestamp": 5, "sequence": "x", "data": [1]}'])
def test_any_object_is_an_event(body: bytes) -> None:
    assert verify(body) == charonia.UnknownEvent(id="dlv_1", type="", timestamp=None, data={})


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"type": "\xff"}'])
def test_what_is_no_object_is_no_event(body: bytes) -> None:
    with pytest.raises(charonia.InvalidResponse, match="not an event of Charonia"):
        verify(body)


def test_an_unknown_progress_is_read() -> None:
    event = parse_streamed("1.0", make_body("job.started", {"id": "job_1", "status": "warming"}))
    assert isinstance(event, charonia.ProgressEvent)
    assert (event.data.status, event.position) == ("warming", "1.0")


def test_a_job_in_an_unknown_state_has_ended_once_it_has_an_end() -> None:
    states = [{"status": "warming", "finished_at": None}, {"status": "skipped"}]

    def answer(request: httpx.Request) -> httpx.Response:
        listed = request.url.path == "/v1/jobs"
        return httpx.Response(200, json={"items": [JOB | each for each in states]} if listed else JOB | states.pop(0))

    with charonia.Charonia("http://a", "k", http=httpx.Client(transport=httpx.MockTransport(answer))) as client:
        assert [each.status for each in client.jobs.list()] == ["warming", "skipped"]
        job = client.jobs.get("job_1")
        assert (job.status, job.data.has_ended) == ("warming", False)
        with pytest.raises(charonia.JobError, match="the job is skipped"):
            job.result()
    line = BatchLine(index=0, custom_id=None, job=job.data, error=None)
    done = make_done(0, 1, line)
    assert done is not None
    assert isinstance(done.error, charonia.JobError)


def test_jobs_in_an_unknown_state_have_ended_once_their_batch_is_completed() -> None:
    batch = json.decode(json.encode(BATCH | {"status": "completed"}), type=BatchData)
    assert batch.ended == 3
    assert structs.replace(batch, finished_at=None).ended == 0
    assert structs.replace(batch, finished_at=BEGINNING, counts={"queued": 1, "failed": 2}).ended == 2
