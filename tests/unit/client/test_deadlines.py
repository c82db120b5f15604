"""Every try of a call ends with the deadline of the method."""

import time
from typing import Any

import httpx
import msgspec
import pytest
from charonia import Charonia, ConfigurationError, ConnectionFailed, DeadlineExceeded, Unavailable
from charonia.calls import MAX_WAIT, TRY_SECONDS

from tests.support.api.client_jobs import make_succeeded

MODEL = {
    "name": "m",
    "ready": True,
    "streaming": False,
    "max_batch_size": 0,
    "versions": [],
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [1]}],
    "outputs": [],
    "queue": {},
}


def hang(request: httpx.Request) -> httpx.Response:
    """Be a gateway that never answers."""
    timeout = request.extensions["timeout"]["read"]
    time.sleep(timeout)
    raise httpx.ReadTimeout("nothing came", request=request)


def test_a_run_ends_in_time_while_it_reads_the_signature() -> None:
    with httpx.Client(transport=httpx.MockTransport(hang)) as http:
        client = Charonia("http://gateway", "k", http=http)
        began_at = time.monotonic()
        with pytest.raises(DeadlineExceeded):
            client.run("m", x=1, timeout=0.05)
        assert time.monotonic() - began_at < 10


def test_a_submit_of_a_run_waits_little_longer_than_the_run() -> None:
    timeouts = []

    def answer(request: httpx.Request) -> httpx.Response:
        timeouts.append(request.extensions["timeout"]["read"])
        if request.method == "GET":
            return httpx.Response(200, json=MODEL)
        raise httpx.ReadTimeout("nothing came", request=request)

    with httpx.Client(transport=httpx.MockTransport(answer)) as http:
        client = Charonia("http://gateway", "k", http=http)
        with pytest.raises(Exception, match="nothing came"):
            client.run("m", x=1, timeout=2.0)
    assert timeouts[0] <= 2
    assert max(timeouts) <= 4


def test_a_wait_for_a_job_is_no_longer_than_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now, waits = 0.0, []
    running = msgspec.structs.replace(make_succeeded([]), status="processing", finished_at=None)

    def answer(request: httpx.Request) -> httpx.Response:
        nonlocal now
        waits.append(wait := float(request.url.params.get("wait", 0)))
        now += wait
        assert now <= 70
        return httpx.Response(200, content=msgspec.json.encode(running))

    monkeypatch.setattr("charonia.calls.time.monotonic", lambda: now)
    with httpx.Client(transport=httpx.MockTransport(answer)) as http:
        job = Charonia("http://gateway", "k", http=http).jobs.get("job_1")
        with pytest.raises(DeadlineExceeded, match="job_1 is processing after 70 s"):
            job.wait(70)
    assert waits == [0, MAX_WAIT, 70 - MAX_WAIT]


@pytest.mark.parametrize("is_feed", [False, True])
def test_a_silent_stream_is_read_only_until_the_deadline(is_feed: bool) -> None:
    timeouts = []

    def answer(request: httpx.Request) -> httpx.Response:
        timeouts.append(request.extensions["timeout"]["read"])
        return (
            httpx.Response(200, json=MODEL) if "models" in request.url.path else httpx.Response(200, content=b":\n\n")
        )

    with httpx.Client(transport=httpx.MockTransport(answer)) as http:
        client = Charonia("http://gateway", "k", http=http)
        began_at = time.monotonic()
        with pytest.raises(DeadlineExceeded):
            list(client.events.follow(after="oldest", timeout=0.1) if is_feed else client.stream("m", x=1, timeout=0.1))
        assert time.monotonic() - began_at < 10
    assert max(timeouts, default=0.0) <= 0.1  # none, if it was over before the first request


@pytest.mark.parametrize(
    ("is_reached", "error"), [(False, ConnectionFailed), (True, Unavailable)], ids=["nobody is there", "no room"]
)
def test_an_upload_is_not_repeated_for_an_hour(
    monkeypatch: pytest.MonkeyPatch, is_reached: bool, error: type[Exception]
) -> None:
    timeouts, now = [], 0.0

    def answer(request: httpx.Request) -> httpx.Response:
        timeouts.append(request.extensions["timeout"]["read"])
        if is_reached:
            return httpx.Response(503)
        raise httpx.ConnectError("nobody is there", request=request)

    def pause(seconds: float) -> None:
        nonlocal now
        now += seconds
        assert now < 20

    monkeypatch.setattr("charonia.calls.time.monotonic", lambda: now)
    monkeypatch.setattr("charonia._sync.transport.sleep", pause)
    with httpx.Client(transport=httpx.MockTransport(answer)) as http, pytest.raises(error):
        Charonia("http://gateway", "k", timeout=20, http=http).files.upload(b"x")
    assert len(timeouts) > 2
    assert set(timeouts) == {TRY_SECONDS}  # a try itself may take longer than that


def refuse(request: httpx.Request) -> httpx.Response:
    raise AssertionError(f"{request.url} was sent")


@pytest.mark.parametrize("timeout", [None, "5", float("nan"), -1, True])
def test_a_wrong_timeout_is_refused_before_anything_is_sent(timeout: Any) -> None:
    with pytest.raises(ConfigurationError, match="timeout must be a number of seconds from 0"):
        Charonia("http://gateway", "k", timeout=timeout)
    with httpx.Client(transport=httpx.MockTransport(refuse)) as http:
        client = Charonia("http://gateway", "k", http=http)
        for call in (
            lambda: client.run("m", x=1, timeout=timeout),
            lambda: list(client.stream("m", x=1, timeout=timeout)),
            lambda: list(client.map("m", [1], timeout=timeout)),
            lambda: client.files.upload(b"x", timeout=timeout),
        ):
            with pytest.raises(ValueError, match="timeout must be a number of seconds from 0"):
                call()
