"""Downloads of outputs end in time, and those that are too large leave the rest of a stream alone."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from charonia import Charonia, CharoniaError, DeadlineExceeded
from charonia.schemas import BatchData, BatchLine, FileData, Output

from tests.support.api.client_jobs import BEGINNING, make_succeeded

MODEL = {
    "name": "m",
    "ready": True,
    "streaming": True,
    "max_batch_size": 0,
    "versions": [],
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [1]}],
    "outputs": [],
    "queue": {},
}
SIZE = 1000
TIMEOUT = 1.0
FILE = FileData(id="f", size=SIZE, sha256=None, content_type="a/b", created_at=BEGINNING, expires_at=None)
SLOW = Output("y", "UINT8", [SIZE], response=1, file="f", download_url="/v1/files/f/content?signature=s", size=SIZE)
JOB = make_succeeded([SLOW])
BATCH = BatchData(
    id="b",
    status="completed",
    total=1,
    accepted=1,
    counts={"succeeded": 1},
    created_at=BEGINNING,
    finished_at=BEGINNING,
)
SMALL = [Output("y", "UINT8", [1], [number], number) for number in (0, 1, 2)]


class Trickle(httpx.SyncByteStream):
    """A body that takes a minute."""

    def __iter__(self) -> Iterator[bytes]:
        for _ in range(SIZE):
            time.sleep(0.06)
            yield b"x"


def make_stream(accept: str) -> bytes | None:
    """Return the events of a job, if they are what is asked for."""
    if accept != "text/event-stream":
        return None
    parts = [{"type": "job.output", "data": {"outputs": [each]}} for each in (SMALL[0], SLOW, SMALL[2])]
    events: list[dict[str, Any]] = [*parts, {"type": "job.succeeded", "data": {}}]
    body = b""
    for number, event in enumerate(events):
        data = {**msgspec.to_builtins(JOB), **event["data"]}
        line = msgspec.json.encode({"type": event["type"], "timestamp": BEGINNING, "data": data})
        body += b"id: %d\ndata: %s\n\n" % (number, line)
    return body


def answer(request: httpx.Request) -> httpx.Response:
    """Be a gateway with one job, whose output comes slowly."""
    path = request.url.path
    if path.endswith("/content"):
        return httpx.Response(200, stream=Trickle())
    if path == "/v1/models/m":
        return httpx.Response(200, json=MODEL)
    found: Any = FILE if path.startswith("/v1/files") else BATCH if path.startswith("/v1/batches") else JOB
    body = msgspec.json.encode(found)
    if path.endswith("/results"):
        body = msgspec.json.encode(BatchLine(index=0, custom_id=None, job=JOB, error=None)) + b"\n"
    elif path.startswith("/v1/jobs"):
        body = make_stream(request.headers["accept"]) or body
    return httpx.Response(200, headers={"Location": f"/v1/jobs/{JOB.id}"}, content=body)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Charonia]:
    monkeypatch.setattr("charonia.calls.GRACE_SECONDS", TIMEOUT)
    with httpx.Client(transport=httpx.MockTransport(answer)) as http:
        yield Charonia("http://gateway", "k", http=http)


OF_JOBS: dict[str, Callable[[Charonia, Path], object]] = {
    "run": lambda client, _path: client.run("m", x=1, timeout=TIMEOUT),
    "stream": lambda client, _path: list(client.stream("m", x=1, timeout=TIMEOUT)),
    "map": lambda client, _path: [done.result for done in client.map("m", [1], timeout=TIMEOUT)],
    "result": lambda client, _path: client.jobs.get("job_1").result(TIMEOUT),
    "result at once": lambda client, _path: client.jobs.get("job_1").result(0),
    "save_output": lambda client, path: client.jobs.get("job_1").save_output("y", path, timeout=TIMEOUT),
}
OF_FILES: dict[str, Callable[[Charonia, Path], object]] = {
    "read": lambda client, _path: list(client.files.read("f", timeout=TIMEOUT)),
    "save": lambda client, path: client.files.save("f", path, timeout=TIMEOUT),
}


@pytest.mark.parametrize("name", [*OF_JOBS, *OF_FILES])
def test_a_slow_download_ends_in_time(client: Charonia, tmp_path: Path, name: str) -> None:
    began_at = time.monotonic()
    with pytest.raises(DeadlineExceeded) as caught:
        (OF_JOBS | OF_FILES)[name](client, tmp_path / "y")
    assert time.monotonic() - began_at < 20
    assert list(tmp_path.iterdir()) == []
    if name in OF_JOBS:
        assert caught.value.job_id == "job_1"
        assert "read them with client.jobs.get('job_1').result(timeout=…)" in str(caught.value)
        assert "goes on" not in str(caught.value)


def test_a_part_that_is_too_large_does_not_end_a_stream(client: Charonia, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("charonia._sync.output_files.MAX_DOWNLOAD", SIZE - 1)
    first, second, third = client.stream("m", x=1)
    assert (first["y"], third["y"], second.tensors[0].file) == ([0], [2], "f")
    with pytest.raises(CharoniaError, match=r"save it with client.files.save\('f', PATH\)"):
        second["y"]


def test_a_result_that_is_too_large_says_how_to_read_it(client: Charonia, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("charonia._sync.output_files.MAX_DOWNLOAD", SIZE - 1)
    with pytest.raises(CharoniaError, match=r"client.jobs.get\('job_1'\).save_output\(NAME, PATH\)") as caught:
        client.run("m", x=1)
    assert caught.value.job_id == "job_1"
