"""The stream of a job ends with that job, whatever other jobs have events in it."""

from typing import Any

import httpx
import pytest
from charonia import Charonia, JobError, StepEvent
from charonia.schemas import Output
from msgspec import json, to_builtins

from tests.support.api.client_jobs import BEGINNING, make_succeeded
from tests.support.api.fake_batches import MODEL

JOB = to_builtins(make_succeeded([Output("y", "FP64", [1], [2.0])]))
RUNNING: dict[str, Any] = {"id": "job_1", "status": "processing", "attempt": 1}
OTHER: dict[str, Any] = {"id": "job_other"}
PART: dict[str, Any] = {"status": "processing", "outputs": [to_builtins(Output("y", "FP64", [1], [1.0], response=0))]}
BEGIN = [("job.started", RUNNING), ("job.started", RUNNING | OTHER | {"attempt": 7})]
BEGIN += [("job.output", {"id": "job_1", **PART}), ("job.output", OTHER | PART), ("job.failed", JOB | OTHER)]


class Streams(httpx.MockTransport):
    """Answers with these streams in turn, each of which breaks after its last event."""

    def __init__(self, *streams: list[tuple[str, dict[str, Any]]], job: dict[str, Any]) -> None:
        super().__init__(self._answer)
        self._streams, self._job = list(streams), job
        self._numbers = iter(range(100))
        self.paths: list[str] = []

    def _answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path.startswith("/v1/models/"):
            return httpx.Response(200, content=json.encode(MODEL))
        if "text/event-stream" not in request.headers["accept"]:
            return httpx.Response(200, content=json.encode(self._job))
        self.paths.append(path)
        headers = {"Location": "/v1/jobs/job_1"} if request.method == "POST" else {}
        return httpx.Response(200, headers=headers, content=b"".join(map(self._encode, self._streams.pop(0))))

    def _encode(self, event: tuple[str, dict[str, Any]]) -> bytes:
        body = json.encode({"type": event[0], "timestamp": BEGINNING, "data": event[1]})
        return b"retry: 1\nid: 1.%d\ndata: %b\n\n" % (next(self._numbers), body)


@pytest.fixture(autouse=True)
def reconnects_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("charonia._sync.transport.choose_delay", lambda *_: 0.0)


def make_client(streams: Streams) -> Charonia:
    return Charonia("http://gateway", "k", http=httpx.Client(transport=streams))


def test_the_end_of_another_job_ends_no_stream() -> None:
    streams = Streams(BEGIN, [("job.succeeded", JOB)], job=JOB)
    (part,) = make_client(streams).stream("double", x=1)
    assert (part["y"], part.index, part.attempt) == ([1.0], 0, 1)
    assert streams.paths == ["/v1/jobs", "/v1/jobs/job_1/events"]


def test_the_events_of_a_job_include_those_of_others() -> None:
    streams = Streams(BEGIN, [("job.succeeded", JOB)], job=JOB)
    events = list(make_client(streams).jobs.get("job_1").events())
    assert [each.type for each in events] == [*(kind for kind, _ in BEGIN), "job.succeeded"]


def test_an_end_of_an_unknown_type_ends_the_stream() -> None:
    skipped = JOB | {"status": "skipped", "outputs": None}
    client = make_client(Streams([*BEGIN, ("job.skipped", skipped)], job=skipped))
    with pytest.raises(JobError, match="job_1 skipped"):
        list(client.stream("double", x=1))


def test_a_retried_job_goes_on() -> None:
    failed = [("job.failed", JOB | {"status": "failed"}), ("job.queued", {"id": "job_1", "status": "queued"})]
    streams = Streams(failed, [("job.succeeded", JOB)], job=JOB)
    (part,) = make_client(streams).stream("double", x=1)
    assert part["y"] == [2.0]


def test_the_stream_of_a_run_has_the_events_of_its_steps() -> None:
    begun = RUNNING | {"step": "read", "job": None, "total": 1}
    ended = RUNNING | {"step": "read", "job": "job_2", "total": None}
    steps = [("step.started", begun), ("step.succeeded", ended)]
    streams = Streams([*steps, ("job.succeeded", JOB)], job=JOB)
    client = make_client(streams)
    first, second, _ = client.jobs.get("job_1").events()
    assert isinstance(first, StepEvent)
    assert isinstance(second, StepEvent)
    assert (first.data.step, first.data.total, second.data.job) == ("read", 1, "job_2")
