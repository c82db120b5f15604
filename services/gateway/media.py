"""The types of bodies: which are taken, and which are liked. Pure."""

import re
from collections.abc import Collection, Mapping
from http import HTTPStatus

from services.gateway.errors import Problem

JSON = "application/json"
WEIGHT = re.compile(r"0(\.[0-9]*)?|1(\.0*)?")
FORM = "application/x-www-form-urlencoded"  # what curl calls whatever it sends, unless told otherwise


def check_json(headers: Mapping[str, str], others: Collection[str] = ()) -> str:
    """The type of a body, in lower case; raises Problem (415) for what is neither JSON nor among the others.

    Without a type, or with the one that curl gives, it is taken for JSON. No encoding is known, so none is undone.
    """
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise refuse(f"the body's encoding is '{encoding[:100]}'; send it as it is")
    kind = headers.get("content-type", JSON).partition(";")[0].strip().lower().replace(FORM, JSON)
    if kind != JSON and not kind.endswith("+json") and kind not in others:
        known = " or ".join((JSON, *others))
        raise refuse(f"the body's Content-Type is '{kind[:100]}', not {known}")
    return kind


def refuse(text: str) -> Problem:
    return Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", text)


def prefers(accepted: str, kind: str) -> bool:
    """Whether an Accept header likes this type better than JSON, or as well and names it (RFC 9110, 12.5.1)."""
    weights = read_weights(accepted)
    liked, json = weigh(weights, kind), weigh(weights, JSON)
    return liked > json or (liked == json > 0 and kind in weights)


def weigh(weights: Mapping[str, float], kind: str) -> float:
    """By the narrowest of the ranges that hold the type; 0 where none does."""
    ranges = (kind, f"{kind.partition('/')[0]}/*", "*/*")
    return next((weights[each] for each in ranges if each in weights), 0.0)


def read_weights(header: str) -> dict[str, float]:
    """Of an Accept header, or its like, by name; what can't be read is passed over, as are parameters of types."""
    weights = {}
    for part in header.lower().replace(" ", "").split(","):
        name, *parameters = part.split(";")
        weight = next((each.removeprefix("q=") for each in parameters if each.startswith("q=")), "1")
        if WEIGHT.fullmatch(weight):
            weights[name] = float(weight)
    return weights
