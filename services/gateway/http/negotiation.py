"""What a client sends and prefers: Content-Type, Accept and Prefer. Pure."""

import re
from collections.abc import Collection, Mapping
from http import HTTPStatus

from services.gateway.http.problems import Problem

JSON = "application/json"
EVENT_STREAM = "text/event-stream"
PLAIN_TEXT = "text/plain"
WEIGHT = re.compile(r"0(\.[0-9]*)?|1(\.0*)?")
FORM = "application/x-www-form-urlencoded"  # what curl sends by default
FILES = ("multipart/form-data", "application/octet-stream")
MAX_WAIT = 60
WAIT = re.compile(r"\s*wait\s*=\s*\"?(\d{1,9})\"?\s*", re.IGNORECASE)


def check_json(headers: Mapping[str, str], others: Collection[str] = ()) -> str:
    """Return a body's media type in lower case; raises Problem (415) if it is neither JSON nor among the others.

    Without a type, or with curl's default, it counts as JSON. Encoded bodies are refused.
    """
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise refuse(f"the body's Content-Encoding is '{encoding[:100]}'; send it without an encoding")
    kind = headers.get("content-type", JSON).partition(";")[0].strip().lower().replace(FORM, JSON)
    if kind != JSON and not kind.endswith("+json") and kind not in others:
        known = " or ".join((JSON, *others))
        hint = '; files go into the JSON as {"base64": "…"}' if kind in FILES or kind.startswith("image/") else ""
        raise refuse(f"the body's Content-Type is '{kind[:100]}'; expected {known}{hint}")
    return kind


def refuse(text: str) -> Problem:
    return Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", text)


def prefers(accepted: str, kind: str) -> bool:
    """Return whether an Accept header (RFC 9110, 12.5.1) prefers this type to JSON, or names it with equal weight."""
    weights = read_weights(accepted)
    weight, json = weigh(weights, kind), weigh(weights, JSON)
    return weight > json or (weight == json > 0 and kind in weights)


def weigh(weights: Mapping[str, float], kind: str) -> float:
    """Return the weight of the narrowest range that contains the type; 0 if none does."""
    ranges = (kind, f"{kind.partition('/')[0]}/*", "*/*")
    return next((weights[each] for each in ranges if each in weights), 0.0)


def read_weights(header: str) -> dict[str, float]:
    """Return the weights in an Accept header by name. Unreadable parts and type parameters are ignored."""
    weights = {}
    for part in header.lower().replace(" ", "").split(","):
        name, *parameters = part.split(";")
        weight = next((each.removeprefix("q=") for each in parameters if each.startswith("q=")), "1")
        if WEIGHT.fullmatch(weight):
            weights[name] = float(weight)
    return weights


def read_wait(header: str | None) -> int:
    """Return the seconds of `Prefer: wait=N` (RFC 7240), at most MAX_WAIT; 0 if absent.

    The first of several counts. Other preferences are ignored.
    """
    for preference in re.split("[,;]", header or ""):
        if found := WAIT.fullmatch(preference):
            return min(int(found.group(1)), MAX_WAIT)
    return 0
