"""Parameters of queries: those that several calls take, and no others than a call has."""

from functools import cache
from typing import Annotated, Any

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler
from litestar.params import Parameter

from services.gateway.errors import FieldError, invalid

# PostgreSQL's text has no NUL.
NameFilter = Annotated[str | None, Parameter(min_length=1, max_length=255, pattern=r"^[^\x00]*$")]


def refuse_unknown(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """A guard: raises Problem (422) for a query parameter that the call does not have, so that a typo never passes."""
    given = connection.query_params.keys()
    if given and (unknown := sorted(given - list_known(handler, frozenset(connection.path_params)))):
        raise invalid(*(FieldError(name, "is no parameter of this call") for name in unknown))


@cache
def list_known(handler: BaseRouteHandler, in_path: frozenset[str]) -> frozenset[str]:
    """The query parameters of a call, whose path has these."""
    names: Any = dict.fromkeys(in_path)  # no more than these is read
    model = handler.create_kwargs_model(names)
    return frozenset(parameter.field_alias for parameter in model.expected_query_params)
