"""The text of a streaming model is printed once, wherever its responses are."""

from collections.abc import Sequence
from typing import cast

import httpx
import pytest
from charonia import Charonia, Job, NotFound
from charonia.cli.commands.run import follow
from charonia.cli.exits import WaitEnded
from charonia.cli.session import Session
from charonia.cli.watching import Watch
from charonia.events import Event, parse_streamed
from charonia.results import Result
from charonia.schemas import Output
from msgspec import json, structs, to_builtins

from tests.support.api.client_jobs import BEGINNING, make_succeeded

WORDS = [Output("token", "BYTES", [1], [word], number) for number, word in enumerate(["a", "b", "c"])]
LARGE = Output("token", "BYTES", [1], response=1, file="file_1", download_url="/v1", size=5)
JOB = make_succeeded([WORDS[0], LARGE, WORDS[2]])


class WatchedJob:
    """A job with these events."""

    id, status = "job_1", "processing"

    def __init__(self, *events: Event) -> None:
        self._events = events

    def events(self, *, timeout: float) -> Sequence[Event]:
        return self._events


def make_event(kind: str, *, job_id: str = "job_1", attempt: int = 1, outputs: Sequence[Output] = ()) -> Event:
    data = {**to_builtins(JOB), "id": job_id, "attempt": attempt, "outputs": outputs}
    return parse_streamed("1", json.encode({"type": kind, "timestamp": BEGINNING, "data": data}))


def make_watch(*events: Event) -> Watch:
    return Watch(Session(None, as_json=True), cast(Job, WatchedJob(*events)), as_text=True)


def test_what_follows_a_part_in_a_file_is_printed_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    parts = [make_event("job.output", outputs=[each]) for each in (WORDS[0], LARGE, WORDS[2])]
    again = make_event("job.started", attempt=2)
    watch = make_watch(make_event("job.started"), *parts, again, *parts, make_event("job.succeeded"))
    watch.run(1)
    watch.print_rest(Result(JOB, [WORDS[0], structs.replace(LARGE, content=b"large"), WORDS[2]]))
    assert capsys.readouterr().out == "a\nalargec\n"


def test_a_failed_job_has_no_rest(capsys: pytest.CaptureFixture[str]) -> None:
    parts = [make_event("job.output", outputs=[each]) for each in (WORDS[0], LARGE)]
    watch = make_watch(*parts, make_event("job.failed"))
    watch.run(1)
    assert (watch.rest, capsys.readouterr().out) == (None, "a\n")


def test_a_watch_that_is_long_enough_says_that_the_job_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    running = structs.replace(JOB, status="processing", finished_at=None, outputs=None)

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=b":\n" if request.url.path.endswith("/events") else json.encode(running))

    with httpx.Client(transport=httpx.MockTransport(answer)) as http:
        job = Charonia("http://gateway", "k", http=http).jobs.get("job_1")
        with pytest.raises(WaitEnded):
            follow(Session(None, as_json=True), job, 0.05, None, as_text=True)
    assert "job_1 goes on. Watch it: charonia watch job_1" in capsys.readouterr().err


def test_another_job_is_not_watched(capsys: pytest.CaptureFixture[str]) -> None:
    parts = [make_event("job.output", outputs=[each]) for each in (WORDS[0], LARGE)]
    other = make_event("job.output", job_id="job_other", outputs=[WORDS[2]])
    watch = make_watch(other, *parts, make_event("job.failed", job_id="job_other"))
    watch.run(1)
    assert (watch.rest, capsys.readouterr().out) == (1, "a")


def test_a_job_whose_outputs_cannot_be_read_is_not_said_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/jobs/job_1":
            return httpx.Response(200, content=json.encode(JOB))
        return httpx.Response(204 if request.url.path.endswith("/events") else 404)

    with httpx.Client(transport=httpx.MockTransport(answer)) as http:
        job = Charonia("http://gateway", "k", http=http).jobs.get("job_1")
        with pytest.raises(NotFound):
            follow(Session(None, as_json=True), job, 1, None, as_text=True)
    assert "job_1 succeeded. Print its outputs again: charonia watch job_1" in capsys.readouterr().err
