"""The response headers in the OpenAPI document. A test compares them with real answers."""

from typing import Any

from services.gateway.http.telemetry import UNTRACED
from services.gateway.open_inference.requests import JSON_LENGTH_HEADER
from services.gateway.openai.problems import PREFIX as OPENAI

TEXT, COUNT = {"type": "string"}, {"type": "integer", "minimum": 0}
HEADERS: dict[str, tuple[str, dict[str, Any]]] = {
    "RateLimit": (
        "What is left of a key's rate limit: `r` requests, and `t` seconds until the limit is full again",
        TEXT,
    ),
    "RateLimit-Policy": ("A key's rate limit: `q` requests in `w` seconds", TEXT),
    "traceresponse": ("The trace of the request, in the form of a W3C `traceparent`", TEXT),
    "Retry-After": ("Seconds after which to try again", COUNT),
    "WWW-Authenticate": ("How to send a key", TEXT),
    "Location": ("The path of the new object, or the URL of the content", TEXT),
    "Idempotency-Replayed": ("`true` if the `Idempotency-Key` was used before", TEXT),
    "Preference-Applied": ("`wait=N`, if the job ended within it; N is 60 if more was asked for", TEXT),
    "X-Charonia-Job": ("The job's id", TEXT),
    "x-should-retry": ("`false`: a repeated request would not help, which OpenAI's clients obey", TEXT),
    "x-ratelimit-limit-requests": ("A key's rate limit in requests a second", COUNT),
    "x-ratelimit-remaining-requests": ("What is left of it", COUNT),
    "x-ratelimit-reset-requests": ("Seconds until it is full again, such as `0.500s`", TEXT),
    "Content-Encoding": ("Chosen from `Accept-Encoding`", TEXT),
    JSON_LENGTH_HEADER: ("Bytes of JSON, where raw tensors follow it", COUNT),
    "Cache-Control": ("`no-cache` on a stream, `no-store` on a redirect", TEXT),
    "X-Accel-Buffering": ("`no` on a stream", TEXT),
    "ETag": ("The SHA-256 of the file in quotes, or its id", TEXT),
    "Accept-Ranges": ("`bytes`: `Range` works", TEXT),
    "Content-Range": ("The bytes of the part, and of the whole file", TEXT),
    "Content-Disposition": ("`attachment`, with the id of the file", TEXT),
    "X-Content-Type-Options": ("`nosniff`", TEXT),
    "Content-Security-Policy": ("`sandbox`: a browser runs nothing of the file", TEXT),
    "Cross-Origin-Resource-Policy": ("`same-origin`: no page of another site embeds the file", TEXT),
}
OF_TRACED = ("traceresponse",)
OF_LIMITED = ("RateLimit", "RateLimit-Policy")  # unless the caller is unknown
CREATED = ("Location", "Idempotency-Replayed")
OF_STREAM = ("Cache-Control", "X-Accel-Buffering")
OF_FILE = (
    "ETag",
    "Accept-Ranges",
    "Content-Disposition",
    "X-Content-Type-Options",
    "Content-Security-Policy",
    "Cross-Origin-Resource-Policy",
)
INFER = ("X-Charonia-Job", "Location")  # once there is a job
# OpenAI's calls: on the answers of a job, and on all answers to a limited key.
OPENAI_JOB = ("X-Charonia-Job", "Idempotency-Replayed")
OPENAI_LIMITED = tuple(f"x-ratelimit-{each}-requests" for each in ("limit", "remaining", "reset"))
BY_STATUS = {"401": ("WWW-Authenticate",), "429": ("Retry-After",), "503": ("Retry-After",)}
BY_CALL: dict[tuple[str, str], tuple[str, ...]] = {
    ("submit_job", "200"): (*CREATED, "Preference-Applied", *OF_STREAM),
    ("submit_job", "202"): CREATED,
    ("submit_batch", "202"): CREATED,
    ("get_batch_results", "200"): ("X-Accel-Buffering",),
    ("create_webhook", "201"): ("Location",),
    ("create_recovery", "202"): ("Location",),
    ("put_pipeline", "200"): ("Location",),
    ("put_pipeline", "201"): ("Location",),
    ("create_key", "201"): ("Location",),
    ("upload_file", "201"): ("Location",),
    ("presign_upload", "201"): ("Location",),
    ("download_file", "200"): OF_FILE,
    ("create_openai_batch", "200"): ("Idempotency-Replayed",),
    ("create_openai_batch", "409"): ("Retry-After",),
    ("download_openai_file", "200"): (*OF_FILE, "X-Accel-Buffering"),
    ("download_openai_file", "307"): ("Location", "Cache-Control"),
    ("download_file", "206"): (*OF_FILE, "Content-Range"),
    ("download_file", "307"): ("Location", "Cache-Control"),
    ("download_file", "416"): ("Content-Range",),
    **{
        (call, "409"): ("Retry-After",)  # if it ends by itself
        for call in (
            *("submit_job", "get_outputs", "cancel_job", "retry_job", "erase_job"),
            *("submit_batch", "get_batch_results", "list_input_items"),
        )
    },
    ("list_events", "200"): OF_STREAM,
    ("list_feed", "200"): OF_STREAM,
    ("get_response", "200"): OF_STREAM,
    ("delete_response", "409"): ("Retry-After",),
    **{
        (call, status): OPENAI_JOB
        + (OF_STREAM if status == "200" and call != "create_embeddings" else ())
        + (("x-should-retry",) if status != "200" else ())
        + (("Retry-After",) if status == "409" else ())
        for call in ("create_chat_completion", "create_completion", "create_embeddings", "create_response")
        for status in ("200", "400", "404", "408", "409", "410", "500", "503", "504")
    },
    **{
        (call, status): INFER + (("Content-Encoding", JSON_LENGTH_HEADER) if status == "200" else ())
        for call in ("infer", "infer_version")
        for status in ("200", "400", "404", "408", "409", "410", "500", "503", "504")
    },
}


def add_headers(path: str, operation: dict[str, Any]) -> None:
    """Add the headers of each answer of a call."""
    has_key = any("key" in each for each in operation.get("security", []))
    for status, answer in operation["responses"].items():
        names = BY_CALL.get((operation["operationId"], status), ()) + (() if path in UNTRACED else OF_TRACED)
        if has_key:
            limited = OF_LIMITED + (OPENAI_LIMITED if path.startswith(OPENAI) else ())
            names = (*names, *BY_STATUS.get(status, ()), *(limited if status != "401" else ()))
        if names:
            answer["headers"] = {name: show(name) for name in names}


def show(name: str) -> dict[str, Any]:
    description, schema = HEADERS[name]
    return {"description": description, "schema": schema}
