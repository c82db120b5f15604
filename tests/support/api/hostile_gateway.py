"""A gateway whose every text tries to control the terminal of those who read it."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
from charonia.admin_schemas import (
    AuditEntry,
    DeliveryData,
    KeyData,
    Recovery,
    Stats,
    TestedDelivery,
    Trace,
    UsageData,
    WebhookData,
    WebhookSecret,
)
from charonia.model_schemas import (
    ModelInfo,
)
from charonia.pipeline_schemas import CheckedPipeline, PipelineData
from charonia.schemas import (
    FileData,
    JobData,
    JobOutputs,
    Page,
    Problem,
    Replayed,
)
from msgspec import inspect

# A write to the clipboard, a clear of the screen in one byte, a turned direction, and a link of rich.
HOSTILE = "a\x1b]52;c;aGk=\x07\x9b2J\x7f\u202e\b\r[link=http://b]c"
VISIBLE = r"a\x1b]52;c;aGk=\x07\x9b2J\x7f\u202e\x08\r[link=http://b]c"
TIME = "2026-11-22T00:00:00Z"
OUTPUT = {"name": HOSTILE, "datatype": "BYTES", "shape": [1], "data": [HOSTILE], "response": 0}
NEWER = {"newer": 1}  # a field that no client knows
KNOWN: dict[type, dict[str, Any]] = {  # what commands decide by
    JobData: {"status": "succeeded", "outputs": [OUTPUT], "outputs_url": None, "attempt": 1},
    Recovery: {"status": "completed"},
    PipelineData: {
        "definition": {
            "inputs": {HOSTILE: {"optional": False}},
            "steps": {HOSTILE: {"model": HOSTILE, "inputs": {HOSTILE: HOSTILE}, "for_each": HOSTILE}},
            "outputs": {HOSTILE: HOSTILE},
        }
    },
}
PAGES = {
    "models": ModelInfo,
    "pipelines": PipelineData,
    "jobs": JobData,
    "dead-letters": JobData,
    "deliveries": DeliveryData,
    "webhooks": WebhookData,
    "keys": KeyData,
    "files": FileData,
    "usage": UsageData,
    "audit-log": AuditEntry,
}
OBJECTS: list[tuple[str, Any]] = [
    (r"/v1/models/.+", ModelInfo),
    (r"/v1/pipelines/[^/]+/check", CheckedPipeline),
    (r"/v1/pipelines/.+", PipelineData),
    (r"/v1/jobs/[^/]+/outputs", JobOutputs),
    (r"/v1/jobs/[^/]+/trace", Trace),
    (r"/v1/jobs/[^/]+(/cancel|/retry)?", JobData),
    (r"/v1/dead-letters/replay", Replayed),
    (r"/v1/deliveries/.+", DeliveryData),
    (r"/v1/(jobs|webhooks)/[^/]+/deliveries", Page[DeliveryData]),
    (r"/v1/webhooks/[^/]+/test", TestedDelivery),
    (r"/v1/webhooks/[^/]+/recoveries.*", Recovery),
    (r"/v1/webhooks/[^/]+.*", WebhookData),
    (r"/v1/webhook-secret", WebhookSecret),
    (r"/v1/keys/.+", KeyData),
    (r"/v1/files/.+", FileData),
    (r"/v1/stats", Stats),
]


def make(kind: inspect.Type) -> Any:
    """Return a value of this type in which every text is hostile."""
    match kind:
        case inspect.StructType():
            made = {each.encode_name: make(each.type) for each in kind.fields if each.name != "next_cursor"}
            return made | KNOWN.get(kind.cls, {}) | NEWER
        case inspect.StrType() | inspect.AnyType() | inspect.RawType():
            return HOSTILE
        case inspect.ListType() | inspect.VarTupleType():
            return [make(kind.item_type)]
        case inspect.DictType():
            return {HOSTILE: make(kind.value_type)}
        case inspect.UnionType():
            return make(next(each for each in kind.types if not isinstance(each, inspect.NoneType)))
        case inspect.BoolType():
            return False
        case inspect.IntType() | inspect.FloatType():
            return 1
        case inspect.DateTimeType():
            return TIME
        case inspect.DateType():
            return TIME[:10]
    return None


def make_example(kind: type[Any]) -> Any:
    return make(inspect.type_info(kind))


def stream_job() -> bytes:
    """Return the events of a job whose model streams a hostile text."""
    job = make_example(JobData)
    events = [("job.started", {**job, "status": "processing", "outputs": []})]
    events += [("step.started", {"step": HOSTILE, "total": 1})]
    events += [("job.output", {"id": HOSTILE, "attempt": 1, "status": "processing", "outputs": [OUTPUT]})]
    events += [("job.succeeded", job)]
    lines = [
        f"id: {number}\nevent: {kind}\ndata: "
        + msgspec.json.encode({"type": kind, "timestamp": TIME, "data": job | data}).decode()
        for number, (kind, data) in enumerate(events)
    ]
    return ("\n\n".join(lines) + "\n\n").encode()


def find_answer(method: str, path: str) -> tuple[int, bytes]:
    """Return the status and the body for a request."""
    if method == "DELETE" or path.endswith("/erase"):
        return 204, b""
    if "refused" in path:
        return 403 if "/models/" in path else 409, msgspec.json.encode(make_example(Problem) | {"errors": []})
    if path.endswith("/events"):
        return 200, stream_job()
    listed = PAGES.get(path.removeprefix("/v1/"))
    if listed is not None:
        return 200, msgspec.json.encode(make_example(Page[listed] if method == "GET" else listed))  # type: ignore[valid-type]
    found = next((found for pattern, found in OBJECTS if re.fullmatch(pattern, path)), None)
    return (404, b"") if found is None else (200, msgspec.json.encode(make_example(found)))


class Handler(BaseHTTPRequestHandler):
    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, body = find_answer(self.command, self.path.partition("?")[0])
        self.send_response(status)
        self.send_header("Content-Type", "text/event-stream" if body.startswith(b"id:") else "application/json")
        if body:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815 -- names of the base class

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def serve_hostile() -> Iterator[str]:
    """Serve, and yield the URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
