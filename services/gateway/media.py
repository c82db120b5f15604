"""The types of bodies: which are taken, and which are liked. Pure."""

from collections.abc import Collection, Mapping
from http import HTTPStatus

from services.gateway.errors import Problem

JSON = "application/json"
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


def accepts(accepted: str | None, kind: str) -> bool:
    """Whether an Accept header names this very type, and not with a weight of 0."""
    for part in (accepted or "").lower().split(","):
        name, *parameters = (each.strip() for each in part.split(";"))
        if name == kind:
            weights = [each.removeprefix("q=") for each in parameters if each.startswith("q=")]
            return all(weight.strip("0.") for weight in weights)
    return False
