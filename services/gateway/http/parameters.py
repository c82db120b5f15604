"""Parameters that several calls share: ids, cursors, names and times. Unknown ones are refused."""

from datetime import datetime
from functools import cache
from typing import Annotated, Any, TypedDict
from uuid import UUID

import msgspec
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler
from litestar.params import Parameter

from common import ids
from services.gateway.http.problems import FieldError, invalid, not_found

# PostgreSQL's text has no NUL.
NameFilter = Annotated[str | None, Parameter(min_length=1, max_length=255, pattern=r"^[^\x00]*$")]
# Parsed by read_span: Litestar accepts numbers as times.
TimeFilter = Annotated[str | None, Parameter(schema_extra={"format": "date-time"})]
AnyTime = Annotated[datetime, msgspec.Meta(tz=True)]
SINGLE = ("Idempotency-Key", "Last-Event-ID")  # headers that a request may have once

Connection = ASGIConnection[Any, Any, Any, Any]


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
        raise invalid(FieldError(name, f"{error}; write + in a URL as %2B")) from error


def check_parameters(connection: Connection) -> None:
    """Raise Problem (422) for an unknown query parameter, so that no typo passes, and for a duplicate one."""
    given = connection.query_params
    known = connection.route_handler, frozenset(connection.path_params)
    if given and (unknown := sorted(given.keys() - list_known(*known))):
        raise invalid(*(FieldError(name, "unknown query parameter") for name in unknown))
    if duplicate := sorted(name for name in given if len(given.getall(name)) > 1):
        raise invalid(*(FieldError(name, "given more than once") for name in duplicate))
    if duplicate := [name for name in SINGLE if len(connection.headers.getall(name, [])) > 1]:
        raise invalid(*(FieldError(name, "given more than once") for name in duplicate))


@cache
def list_known(handler: BaseRouteHandler, in_path: frozenset[str]) -> frozenset[str]:
    """Return the query parameters of a call whose path has these parameters."""
    names: Any = dict.fromkeys(in_path)  # only the keys matter
    model = handler.create_kwargs_model(names)
    return frozenset(parameter.field_alias for parameter in model.expected_query_params)


def parse_id(kind: ids.Kind, text: str) -> UUID:
    """Parse an id in a path; raises Problem (404), since nothing can have a malformed id."""
    found = ids.parse(kind, text)
    if found is None:
        raise not_found(kind.name.lower())
    return found


def parse_cursor(kind: ids.Kind, cursor: str | None) -> UUID | None:
    """Parse the cursor of a list in order of id: the id of the previous page's last item. Raises Problem (422)."""
    found = ids.parse(kind, cursor) if cursor else None
    if cursor and found is None:
        raise invalid(FieldError("cursor", "invalid cursor"))
    return found
