"""Typical mistakes of new users: a call, and the text that helps."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
UNKNOWN_JOB = "job_" + "0" * 26
UNKNOWN_BATCH = "batch_" + "0" * 26
TEXT = "text/plain"


class Mistake(NamedTuple):
    """A call. The answer has the status, and every text in its detail. A header that is None is not sent."""

    method: str
    path: str
    status: int
    texts: tuple[str, ...]
    body: Any = None  # JSON, or the bytes of a body that is none
    headers: Mapping[str, str | None] = {}


def submit(status: int, *texts: str, **fields: Any) -> Mistake:
    """Return a submit to `echo` with other fields. A field that is None is left out."""
    body = {"model": "echo", "inputs": {"x": [[1.0]]}} | fields
    return Mistake("POST", "/v1/jobs", status, texts, {name: each for name, each in body.items() if each is not None})


def send(content: bytes, *texts: str, status: int = 400) -> Mistake:
    """Return a submit with a body that is no JSON."""
    return Mistake("POST", "/v1/jobs", status, texts, content)


def get(path: str, status: int, *texts: str, method: str = "GET", **headers: str | None) -> Mistake:
    return Mistake(
        method, path, status, texts, headers={name.replace("_", "-"): each for name, each in headers.items()}
    )


def subscribe(*texts: str, **fields: Any) -> Mistake:
    return Mistake("POST", "/v1/webhooks", 422, texts, {"url": "https://example.com/hook"} | fields)


def infer(content: bytes, *texts: str) -> Mistake:
    return Mistake("POST", "/v2/models/echo/infer", 400, texts, content)


def lines(content: bytes, status: int, *texts: str) -> Mistake:
    """Return a batch of lines."""
    return Mistake("POST", "/v1/batches", status, texts, content, {"Content-Type": "application/x-ndjson"})


def encode(mistake: Mistake) -> bytes | None:
    """Return the bytes of a body."""
    if mistake.body is None or isinstance(mistake.body, bytes):
        return mistake.body
    return msgspec.json.encode(mistake.body)


KEY = "Authorization: Bearer <key>"
SHAPE = "expected shape [-1, -1] (-1 is any size)"
TIME = "2026-12-01T10:00:00Z"
JOB = submit(202).body

MISTAKES: dict[str, Mistake] = {
    # The key
    "no key": get("/v1/jobs", 401, "the API key is missing", KEY, Authorization=None),
    "a key without Bearer": get("/v1/jobs", 401, "lacks the word Bearer", KEY, Authorization="ch_dev"),
    "Basic in place of Bearer": get("/v1/jobs", 401, "another scheme than Bearer", KEY, Authorization="Basic Y2g="),
    "Bearer without a key": get("/v1/jobs", 401, "no key after Bearer", Authorization="Bearer"),
    "a key in brackets": get("/v1/jobs", 401, "brackets", KEY, Authorization="Bearer <ch_dev>"),
    "Bearer twice": get("/v1/jobs", 401, "second Bearer", KEY, Authorization="Bearer Bearer ch_dev"),
    "a variable that no shell replaced": get("/v1/jobs", 401, "$", KEY, Authorization="Bearer $KEY"),
    "an unknown key": get("/v1/jobs", 401, "unknown or was revoked", "operator", Authorization="Bearer ch_x"),
    # The path, the method and the parameters
    "a path without its version": get("/jobs", 404, "no path /jobs", "did you mean /v1/jobs?"),
    "a misspelled path": get("/v1/job", 404, "did you mean /v1/jobs?"),
    "a misspelled part of a job": get(f"/v1/jobs/{UNKNOWN_JOB}/event", 404, f"/v1/jobs/{UNKNOWN_JOB}/events?"),
    "a path of another API": get("/v1/chat/completions", 404, "no path /v1/chat/completions; /docs lists all paths"),
    "an unknown path": get("/v7/nothing", 404, "there is no path /v7/nothing", "/docs"),
    "GET for POST": get("/v1/jobs/x/cancel", 405, "GET is not possible here; use POST"),
    "PUT for POST": get("/v1/jobs", 405, "PUT is not possible here; use GET or POST", method="PUT"),
    "DELETE of a job": get(f"/v1/jobs/{UNKNOWN_JOB}", 405, "DELETE is not possible here; use GET", method="DELETE"),
    "DELETE of all jobs": get("/v1/jobs", 405, "use GET or POST", method="DELETE"),
    "wait at a submit": Mistake("POST", "/v1/jobs?wait=30", 422, ("unknown parameter `wait`", "Prefer: wait=30"), JOB),
    "a misspelled parameter": get("/v1/jobs?statsu=queued", 422, "unknown parameter `statsu`; did you mean `status`?"),
    "an unknown parameter": get("/v1/jobs?page=2", 422, "unknown parameter `page`", "cursor", "limit"),
    "a parameter twice": get("/v1/jobs?limit=1&limit=2", 422, "given more than once"),
    "too long a wait": get(f"/v1/jobs/{UNKNOWN_JOB}?wait=90", 422, "wait: must be at most 60 seconds, got 90"),
    "a wait with its unit": get(f"/v1/jobs/{UNKNOWN_JOB}?wait=30s", 422, "number of seconds from 0 to 60, got '30s'"),
    "a wait of NaN": get(f"/v1/jobs/{UNKNOWN_JOB}?wait=nan", 422, "number of seconds from 0 to 60, got 'nan'"),
    "a place in words": get(f"/v1/batches/{UNKNOWN_BATCH}/results?from=x", 422, "from: must be a whole number from 0"),
    "a place beyond a batch": get(
        f"/v1/batches/{UNKNOWN_BATCH}/results?from=1000001", 422, "from: must be at most 1000000"
    ),
    "an unknown status": get("/v1/jobs?status=running", 422, "must be one of queued, processing, canceling, succeeded"),
    "a misspelled status": get("/v1/jobs?status=succeded", 422, "did you mean 'succeeded'?"),
    "too large a limit": get("/v1/jobs?limit=5000", 422, "limit: must be at most 1000, got 5000"),
    "a limit of nothing": get("/v1/jobs?limit=0", 422, "limit: must be at least 1, got 0"),
    "a limit in words": get("/v1/jobs?limit=all", 422, "limit: must be a whole number from 1 to 1000, got 'all'"),
    "a day for a time": get("/v1/jobs?created_after=2026-12-01", 422, f"a time like {TIME}", "time of the day"),
    "a time without a zone": get("/v1/jobs?created_after=2026-12-01T10:00:00", 422, TIME, "time zone", "end it with Z"),
    "a time with + in a URL": get("/v1/jobs?created_after=2026-12-01T10:00:00+01:00", 422, "write + in a URL as %2B"),
    "a day of usage in words": get("/v1/usage?since=today", 422, "must be a day like 2026-12-01, got 'today'"),
    "a made-up cursor": get("/v1/jobs?cursor=2", 422, "pass the previous page's next_cursor, with the same filters"),
    "a made-up cursor of webhooks": get("/v1/webhooks?cursor=2", 422, "next_cursor, with the same filters"),
    "a short job id": get("/v1/jobs/42", 404, "'42' is not the id of a job; one looks like job_01"),
    "a UUID for a job": get(
        "/v1/jobs/01890a5d-ac96-774b-bcce-b302099a8057", 404, "is not the id of a job; one looks like job_01"
    ),
    "a batch for a job": get(f"/v1/jobs/{UNKNOWN_BATCH}", 404, f"'{UNKNOWN_BATCH}' is the id of a batch, not of a job"),
    "an unknown job": get(f"/v1/jobs/{UNKNOWN_JOB}", 404, "job not found", "deleted, or belongs to another tenant"),
    "an event for a batch": get("/v1/batches/evt_" + "0" * 26, 404, "is the id of an event, not of a batch"),
    "a job for a batch filter": get(f"/v1/jobs?batch={UNKNOWN_JOB}", 422, "is the id of a job, not of a batch"),
    # The body
    "no body": send(b"", "the body is empty; send JSON"),
    "a form": send(b"model=echo&inputs=1", "the body is a form, not JSON"),
    "single quotes": send(b"{'model': 'echo'}", "line 1, column 2", "double quotes, not single ones"),
    "no quotes": send(b"{model: 1}", "line 1, column 2", "a name needs double quotes"),
    "no colon": send(b'{"model" "echo"}', "line 1, column 10", "a name needs a colon"),
    "a comma too many": send(b'{\n  "model": "echo",\n}', "line 3, column 1", "remove the comma before '}'"),
    "a comment": send(b'{"model": "echo"} // mine', "JSON has no comments"),
    "a literal in capitals": send(b'{"model": True}', "write true, in lower case"),
    "NaN without quotes": send(b'{"inputs": {"x": [NaN]}}', 'write NaN in quotes: "NaN"'),
    "a cut body": send(b'{"model": "echo", "inputs": {"x": [1', "it ends too early"),
    "a file of its own": send(b"@job.json", "line 1, column 1, at `@job.json`", "name of a file"),
    "a backslash of Windows": send(b'{"model": "C:\\models"}', "a backslash in a string is written \\\\"),
    "an image as the body": send(b"\x89PNG\r\n\x1a\n", "byte 0 is not UTF-8", "files as base64"),
    "a list for an object": send(b"[1]", "the body must be an object like", "got a list", status=422),
    "plain text": Mistake("POST", "/v1/jobs", 415, (f"Content-Type is '{TEXT}'",), b"{}", {"Content-Type": TEXT}),
    "a file from a form": Mistake(
        "POST",
        "/v1/jobs",
        415,
        ("multipart/form-data", "expected application/json", '{"base64": "…"}'),
        b"--x",
        {"Content-Type": "multipart/form-data; boundary=x"},
    ),
    "a compressed body": Mistake("POST", "/v1/jobs", 415, ("without an encoding",), b"", {"Content-Encoding": "gzip"}),
    "too large a body": send(b'"' + b" " * 16 * 1024 * 1024 + b'"', "over the limit", "send less", status=413),
    # Fields
    "a misspelled field": submit(422, "unknown field `input`; did you mean `inputs`?", input={}, inputs=None),
    "an unknown field": submit(422, "unknown field `queue`; known fields: version, parameters", queue="a"),
    "a misspelled nested field": submit(
        422, "/retry/max_attempt: ", "did you mean `max_attempts`?", retry={"max_attempt": 3}
    ),
    "no model": submit(422, "/model: is missing; it must be a string", model=None),
    "no inputs": submit(422, "/inputs: is missing", inputs=None),
    "an empty model": submit(422, "/model: must not be empty", model=""),
    "a model twice": send(
        b'{"model": 5, "model": "echo", "inputs": {}}', "/model: is given more than once", status=422
    ),
    "a model that is a number": submit(422, "/model: must be a string, got 5", model=5),
    "a misspelled model": submit(404, "model 'ehco' not found; did you mean 'echo'?", model="ehco"),
    "an unknown model": submit(404, "known models: 'echo', 'excerpt', 'faulty'", model="resnet50"),
    "an unknown version": submit(404, "model 'echo' has no version '2'; known versions: '1'", version="2"),
    "a version that is a number": submit(422, "/version: must be a string, got 1", version=1),
    "an unknown priority": submit(422, "must be one of high, normal, low; got 'urgent'", priority="urgent"),
    "a webhook that is a URL": submit(
        422, 'must be an object like {"url": "https://…"}', webhook="https://example.com"
    ),
    "a webhook without TLS": submit(422, "must start with https://", webhook={"url": "ftp://example.com"}),
    "a webhook without a scheme": submit(422, "must start with", webhook={"url": "example.com/hook"}),
    "a webhook with a wrong port": submit(422, "its port must be 1 to 65535", webhook={"url": "https://a.example:x/"}),
    "a webhook on this network": submit(
        422, "requests to 10.0.0.1 are not allowed", webhook={"url": "https://10.0.0.1/"}
    ),
    "an unknown event": submit(
        422,
        "must be one of job.started, job.succeeded",
        "did you mean 'job.succeeded'?",
        webhook={"url": "https://example.com/", "events": ["job.succeded"]},
    ),
    "a run_at in words": submit(422, f"/run_at: must be a time like {TIME}, got 'tomorrow'", run_at="tomorrow"),
    "a run_at without a zone": submit(422, "lacks a time zone", run_at="2026-12-01T10:00:00"),
    "a run_at that is a number": submit(422, f"must be a time like {TIME}, got 1764583200", run_at=1764583200),
    "a timeout of nothing": submit(422, "/timeout: must be at least 0.001 seconds, got 0", timeout=0),
    "too long a timeout": submit(422, "/timeout: must be at most 604800 seconds", timeout=10**7),
    "a timeout with its unit": submit(
        422, "must be a number of seconds from 0.001 to 604800, got '60s'", timeout="60s"
    ),
    "half an attempt": submit(422, "must be a whole number from 1 to 100, got 1.5", retry={"max_attempts": 1.5}),
    "too many attempts": submit(
        422, "/retry/max_attempts: must be at most 100, got 1000", retry={"max_attempts": 1000}
    ),
    "retry that is a number": submit(422, "/retry: must be an object, got 3", retry=3),
    "metadata that is text": submit(422, "/metadata: must be an object, got 'order 7'", metadata="order 7"),
    "a parameter of Triton, priority": submit(422, "/parameters/priority: is no parameter", parameters={"priority": 1}),
    "a parameter of Triton, timeout": submit(422, "`timeout`, in seconds, decides", parameters={"timeout": 1}),
    "a sequence": submit(422, "sequences are not supported", parameters={"sequence_id": 7, "sequence_start": True}),
    "the end of a sequence": submit(422, "/parameters/sequence_end: is no", parameters={"sequence_end": True}),
    "a parameter that is a list": submit(422, "/parameters/a: must be true or false or a number", parameters={"a": []}),
    "several mistakes": submit(422, "/timeout: ", "/priority: ", timeout=-1, priority="x"),
    # Inputs
    "an unknown input": submit(
        422, "the model has no input 'data'; it has 'x' (FP32 [-1, -1])", inputs={"data": [[1]]}
    ),
    "an input that is missing": submit(422, "input 'x' (FP32 [-1, -1]) is missing", inputs={}),
    "a wrong shape": submit(422, SHAPE, "got [1, 1, 1]", inputs={"x": [[[1]]]}),
    "a number in quotes": submit(
        422, "element 0 is '1.5', a string; FP32 takes numbers, without quotes", inputs={"x": [["1.5"]]}
    ),
    "a null": submit(422, "element 1 is null; FP32 takes numbers", inputs={"x": [[1, None]]}),
    "lists of different lengths": submit(422, "the nested lists differ in length", inputs={"x": [[1], [1, 2]]}),
    "too large a float": submit(422, "1e+39 is outside -3.4028235e+38…3.4028235e+38 of FP32", inputs={"x": [[1e39]]}),
    "too large an integer": submit(
        422,
        "5000000000 is outside -2147483648…2147483647 of INT32",
        model="tokens",
        inputs={"text": ["a"], "delay_ms": [5_000_000_000]},
    ),
    "a fraction for an integer": submit(
        422,
        "element 0 is 1.5, not a whole number; INT32 takes only those",
        model="tokens",
        inputs={"text": ["a"], "delay_ms": [1.5]},
    ),
    "a number for text": submit(
        422, "element 0 is 5, a number; BYTES takes strings", model="tokens", inputs={"text": [5], "delay_ms": [1]}
    ),
    "another datatype": submit(
        422, "expected FP32, got INT32", inputs=[{"name": "x", "shape": [1, 1], "datatype": "INT32", "data": [1]}]
    ),
    "a datatype of another library": submit(
        422,
        "must be one of BOOL, UINT8",
        "got 'float32'",
        inputs=[{"name": "x", "shape": [1, 1], "datatype": "float32", "data": [1]}],
    ),
    "URL-safe base64": submit(
        422, "use + and / in place of - and _", model="ocr", inputs={"image": [{"base64": "_-8="}]}
    ),
    "base64 with line breaks": submit(422, "base64 -w0", model="ocr", inputs={"image": [{"base64": "aGVs\nbG8="}]}),
    "the name of a file": submit(
        422, "looks like the name of a file", model="ocr", inputs={"image": [{"base64": "a.png"}]}
    ),
    "base64 that was cut": submit(422, "not a multiple of 4", model="ocr", inputs={"image": [{"base64": PNG[:21]}]}),
    # Batches, subscriptions and the rest
    "an empty batch": Mistake("POST", "/v1/batches", 422, ("the batch is empty; send at least one job",), []),
    "the name of a file as a batch": lines(b"jobs.jsonl", 422, "looks like the name of a file", "--data-binary @FILE"),
    "a file whose lines curl joined": lines(b'{"model": "echo"}{"model": "echo"}', 422, "column 18", "--data-binary"),
    "lines sent as JSON": Mistake(
        "POST",
        "/v1/batches",
        400,
        ("a second job begins in line 2, column 1", "application/x-ndjson"),
        b'{"model": "echo"}\n{"model": "echo"}\n',
    ),
    "one job as a batch": Mistake("POST", "/v1/batches", 422, ("must be a list of jobs", "application/x-ndjson"), JOB),
    "a batch with a comma too many": Mistake("POST", "/v1/batches", 400, ("remove the comma before ']'",), b"[{},]"),
    "an item that is no JSON": Mistake(
        "POST",
        "/v1/batches",
        422,
        ("/0: the item is not JSON: line 1, column 1",),
        b"hello",
        {"Content-Type": "application/x-ndjson"},
    ),
    "a batch that was cut": Mistake("POST", "/v1/batches", 400, ("it ends too early",), b'[{"model": "echo"}'),
    "a subscription without a URL": Mistake("POST", "/v1/webhooks", 422, ("/url: is missing",), {}),
    "a subscription to an unknown event": subscribe("did you mean 'job.succeeded'?", events=["job.success"]),
    "a subscription with one event": subscribe("/events: must be a list, got 'job.*'", events="job.*"),
    "an unknown signature": subscribe("must be one of ed25519, hmac; got 'rsa'", signing="rsa"),
    "a header of the connection": subscribe("/headers/host: is set by Charonia; leave it out", headers={"host": "a"}),
    "a key with a line break in its name": Mistake(
        "POST", "/v1/keys", 422, ("/name: must not contain control characters",), {"name": "a\n", "scopes": ["read"]}
    ),
    "a replay of a batch": Mistake(
        "POST",
        "/v1/dead-letters/replay",
        422,
        ("/ids/0: ", "is the id of a batch, not of a job"),
        {"ids": [UNKNOWN_BATCH]},
    ),
    "an idempotency key with spaces": Mistake(
        "POST",
        "/v1/jobs",
        422,
        ("Idempotency-Key: must be 1 to 255 visible ASCII characters",),
        JOB,
        {"Idempotency-Key": "a b"},
    ),
    # The Open Inference Protocol
    "no JSON for Triton": infer(b'{"inputs" []}', "failed to parse the request JSON", "line 1, column 11"),
    "no inputs for Triton": infer(b"{}", "/inputs: is missing; it must be a list"),
    "a wrong datatype for Triton": infer(
        b'{"inputs": [{"name": "x", "shape": [1], "datatype": "float", "data": [1]}]}', "must be one of BOOL, UINT8"
    ),
}
