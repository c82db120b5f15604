"""The headers that answers may have, for the OpenAPI document. A test compares them with what is sent."""

from typing import Any

from services.gateway.protocol import LENGTH

TEXT, COUNT = {"type": "string"}, {"type": "integer", "minimum": 0}
HEADERS: dict[str, tuple[str, dict[str, Any]]] = {
    "RateLimit": (
        "What is left to a key with a rate limit: `r` requests, and seconds `t` until all are there again",
        TEXT,
    ),
    "RateLimit-Policy": ("A key's rate limit: `q` requests in `w` seconds", TEXT),
    "Retry-After": ("Seconds after which to try again", COUNT),
    "WWW-Authenticate": ("How to send a key", TEXT),
    "Location": ("The path of what was made", TEXT),
    "Idempotency-Replayed": ("`true` where the same `Idempotency-Key` had come before", TEXT),
    "Preference-Applied": ("`wait=N`, as it was kept", TEXT),
    "X-Charonia-Job": ("The job's id", TEXT),
    "Content-Encoding": ("As `Accept-Encoding` asks", TEXT),
    LENGTH: ("Bytes of JSON, where raw tensors follow it", COUNT),
    "Cache-Control": ("`no-cache`, of a stream", TEXT),
    "X-Accel-Buffering": ("`no`, of a stream", TEXT),
}
OF_LIMITED = ("RateLimit", "RateLimit-Policy")  # unless who asks is not known
MADE = ("Location", "Idempotency-Replayed")
INFER = ("X-Charonia-Job", "Location")  # once there is a job
BY_STATUS = {"401": ("WWW-Authenticate",), "429": ("Retry-After",), "503": ("Retry-After",)}
BY_CALL: dict[tuple[str, str], tuple[str, ...]] = {
    ("submit_job", "200"): (*MADE, "Preference-Applied"),
    ("submit_job", "202"): MADE,
    ("submit_batch", "202"): MADE,
    ("create_webhook", "201"): ("Location",),
    ("erase_job", "409"): ("Retry-After",),
    ("list_events", "200"): ("Cache-Control", "X-Accel-Buffering"),
    **{
        (call, status): INFER + (("Content-Encoding", LENGTH) if status == "200" else ())
        for call in ("infer", "infer_version")
        for status in ("200", "400", "404", "408", "409", "410", "500", "503", "504")
    },
}


def add_headers(operation: dict[str, Any]) -> None:
    """To each answer of a call that the document has."""
    has_key = any("key" in each for each in operation.get("security", []))
    for status, answer in operation["responses"].items():
        names = BY_CALL.get((operation["operationId"], status), ())
        if has_key:
            names = (*names, *BY_STATUS.get(status, ()), *(OF_LIMITED if status != "401" else ()))
        if names:
            answer["headers"] = {name: show(name) for name in names}


def show(name: str) -> dict[str, Any]:
    description, schema = HEADERS[name]
    return {"description": description, "schema": schema}
