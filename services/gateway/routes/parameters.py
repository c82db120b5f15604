"""Parameters of queries: those that several calls take, and no others than a call has."""

from datetime import datetime
from functools import cache
from typing import Annotated, Any, TypedDict

import msgspec
from litestar.handlers import BaseRouteHandler
from litestar.params import Parameter

from services.gateway.auth import Authentication, Connection
from services.gateway.errors import FieldError, invalid

# PostgreSQL's text has no NUL.
NameFilter = Annotated[str | None, Parameter(min_length=1, max_length=255, pattern=r"^[^\x00]*$")]
# Read by read_span: Litestar takes numbers for times.
TimeFilter = Annotated[str | None, Parameter(schema_extra={"format": "date-time"})]


AnyTime = Annotated[datetime, msgspec.Meta(tz=True)]
SINGLE = ("Idempotency-Key", "Last-Event-ID")  # headers that one request has once


class Span(TypedDict):
    """When what is looked for was created."""

    created_after: datetime | None
    created_before: datetime | None


def read_span(after: str | None, before: str | None) -> Span:
    """Raises Problem (422) for what is no RFC 3339 time."""
    return Span(created_after=read_time("created_after", after), created_before=read_time("created_before", before))


def read_time(name: str, text: str | None) -> datetime | None:
    try:
        return None if text is None else msgspec.convert(text, AnyTime)
    except msgspec.ValidationError as error:
        raise invalid(FieldError(name, f"{error}; a + in a URL is written %2B")) from error


class Strict(Authentication):
    """Refuses, of a caller who was let in, what is not clear. No guards: Litestar copies the handler for each."""

    def check(self, connection: Connection) -> None:
        refuse_unknown(connection, connection.route_handler)
        refuse_twice(connection)


def refuse_twice(connection: Connection) -> None:
    """Raises Problem (422) where it is not clear which of two is meant."""
    if twice := [name for name in SINGLE if len(connection.headers.getall(name, [])) > 1]:
        raise invalid(*(FieldError(name, "is given twice") for name in twice))


def refuse_unknown(connection: Connection, handler: BaseRouteHandler) -> None:
    """Raises Problem (422) for a query parameter that the call does not have, or one given twice: no typo passes."""
    given = connection.query_params
    if given and (unknown := sorted(given.keys() - list_known(handler, frozenset(connection.path_params)))):
        raise invalid(*(FieldError(name, "is no parameter of this call") for name in unknown))
    if twice := sorted(name for name in given if len(given.getall(name)) > 1):
        raise invalid(*(FieldError(name, "is given twice") for name in twice))


@cache
def list_known(handler: BaseRouteHandler, in_path: frozenset[str]) -> frozenset[str]:
    """The query parameters of a call, whose path has these."""
    names: Any = dict.fromkeys(in_path)  # no more than these is read
    model = handler.create_kwargs_model(names)
    return frozenset(parameter.field_alias for parameter in model.expected_query_params)
