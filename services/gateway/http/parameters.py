"""Parameters that several calls share: ids, cursors, names and times. Unknown ones are refused."""

from datetime import datetime
from functools import cache
from http import HTTPStatus
from typing import Annotated, Any, TypedDict, get_args
from uuid import UUID

import msgspec
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler
from litestar.params import Parameter

from common import ids
from services.gateway.http.problems import MAX_ERRORS, MAX_TEXT, FieldError, Problem, invalid
from services.gateway.http.validation.allowed_values import MAX_SHOWN
from services.gateway.http.validation.field_errors import explain_time
from services.gateway.http.validation.suggestions import say_unknown

AnyTime = Annotated[datetime, msgspec.Meta(tz=True)]
EXAMPLE_ID = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
WAITING_POSTS = ("/v1/jobs",)  # take `Prefer: wait`
SINGLE = ("Idempotency-Key", "Last-Event-ID")  # headers that a request may have once

Connection = ASGIConnection[Any, Any, Any, Any]


def make_name_filter(description: str) -> Any:
    """Return the rules of a filter by a name. PostgreSQL's text has no NUL."""
    return Parameter(min_length=1, max_length=255, pattern=r"^[^\x00]*$", description=description)


def make_time_filter(description: str) -> Any:
    """Return the documentation of a filter by a time. read_time parses it: Litestar accepts numbers as times."""
    return Parameter(schema_extra={"format": "date-time"}, description=description)


ModelFilter = Annotated[str | None, make_name_filter("Only what concerns this model.")]
CreatedAfter = Annotated[str | None, make_time_filter("Only what was created at this time or later.")]
CreatedBefore = Annotated[str | None, make_time_filter("Only what was created before this time.")]
Limit = Annotated[int, Parameter(ge=1, le=1000, description="How many items the page may have.")]
CursorParameter = Annotated[
    str | None,
    Parameter(description="The `next_cursor` of the page before. The other parameters must be the same as there."),
]


class Span(TypedDict):
    """Bounds on the time of creation."""

    created_after: datetime | None
    created_before: datetime | None


def read_span(after: str | None, before: str | None) -> Span:
    """Parse both bounds; raises Problem (422) if one is not an RFC 3339 time."""
    return Span(created_after=read_time("created_after", after), created_before=read_time("created_before", before))


def read_time(name: str, text: str | None) -> datetime | None:
    try:
        return None if text is None else msgspec.convert(text, AnyTime)
    except msgspec.ValidationError as error:
        raise invalid(FieldError(name, explain_time(text))) from error


def check_parameters(connection: Connection) -> None:
    """Raise Problem (422) for an unknown query parameter, so that no typo passes, and for a duplicate one."""
    given = connection.query_params
    known = connection.route_handler, frozenset(connection.path_params)
    if given and (unknown := sorted(given.keys() - list_known(*known))):
        raise invalid(*(FieldError(name, explain_unknown(connection, name)) for name in unknown[:MAX_ERRORS]))
    if duplicate := sorted(name for name in given if len(given.getall(name)) > 1):
        raise invalid(*(FieldError(name, "given more than once") for name in duplicate))
    if null := sorted(
        name for name in list_nullable(connection.route_handler) if given.get(name, "").lower() == "null"
    ):
        raise invalid(*(FieldError(name, "null is not a value; leave the parameter out") for name in null))
    if duplicate := [name for name in SINGLE if len(connection.headers.getall(name, [])) > 1]:
        raise invalid(*(FieldError(name, "given more than once") for name in duplicate))


def explain_unknown(connection: Connection, name: str) -> str:
    """Return what is wrong with a query parameter that a call does not have, and what may have been meant."""
    if name == "wait" and connection.url.path in WAITING_POSTS:
        return "unknown parameter `wait`; to wait, send the header `Prefer: wait=30`"
    known = list_known(connection.route_handler, frozenset(connection.path_params))
    return say_unknown("parameter", name[:MAX_TEXT], sorted(known))


@cache
def list_known(handler: BaseRouteHandler, in_path: frozenset[str]) -> frozenset[str]:
    """Return the query parameters of a call whose path has these parameters."""
    return frozenset(list_aliases(handler, in_path).values())


@cache
def list_aliases(handler: BaseRouteHandler, in_path: frozenset[str]) -> dict[str, str]:
    """Return the query parameters of a call, by the names of the handler's arguments."""
    names: Any = dict.fromkeys(in_path)  # only the keys matter
    model = handler.create_kwargs_model(names)
    return {parameter.field_name: parameter.field_alias for parameter in model.expected_query_params}


@cache
def list_nullable(handler: BaseRouteHandler) -> frozenset[str]:
    """Return the parameters for which Litestar takes the text "null" as None: those that are no text and optional."""
    fields = handler.parsed_fn_signature.parameters.items()
    return frozenset(name for name, field in fields if field.is_optional and str not in get_args(field.annotation))


def parse_id(kind: ids.Kind, text: str) -> UUID:
    """Parse an id in a path; raises Problem (404), since nothing can have a malformed id."""
    found = ids.parse(kind, text)
    if found is None:
        name = kind.name.lower()
        raise Problem(HTTPStatus.NOT_FOUND, "not_found", f"{name} not found: {explain_id(kind, text)}")
    return found


def explain_id(kind: ids.Kind, text: str) -> str:
    """Return why a text is not an id of this kind."""
    for other in ids.Kind:
        if other is not kind and ids.parse(other, text) is not None:
            return f"'{text}' is the id of {show_kind(other)}, not of {show_kind(kind)}"
    shown = text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
    return f"'{shown}' is not the id of {show_kind(kind)}; one looks like {ids.encode(kind, EXAMPLE_ID)}"


def show_kind(kind: ids.Kind) -> str:
    """Return the name of a kind with its article."""
    name = kind.name.lower().replace("_", " ")
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def parse_cursor(kind: ids.Kind, cursor: str | None) -> UUID | None:
    """Parse the cursor of a list in order of id: the id of the previous page's last item. Raises Problem (422)."""
    found = ids.parse(kind, cursor) if cursor else None
    if cursor and found is None:
        raise invalid(wrong_cursor())
    return found


def wrong_cursor() -> FieldError:
    return FieldError("cursor", "invalid cursor; pass the previous page's next_cursor, with the same filters")
