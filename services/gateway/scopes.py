"""What an API key may do. Each route names the scope that it needs, once, in its decorator: `**needs(Scope.READ)`."""

from collections.abc import Collection
from enum import StrEnum
from http import HTTPStatus
from typing import Any

from litestar.handlers import BaseRouteHandler

from services.gateway.errors import Problem

OPTION = "scope"


class Scope(StrEnum):
    SUBMIT = "submit"  # submit, cancel and retry jobs
    READ = "read"  # look at anything but secrets
    ADMIN = "admin"  # webhooks, secrets, dead letters, erasure; and all that the others allow


ALL = frozenset(Scope)


def needs(scope: Scope, **options: Any) -> dict[str, Any]:
    """For a route's decorator: what is checked before the handler runs, and what its OpenAPI says."""
    return {"opt": {OPTION: scope, **options}, "security": [{"key": [scope.value]}]}


def check_scope(route: BaseRouteHandler, held: Collection[Scope]) -> None:
    """Raises Problem (403) where a key with these scopes may not call the route."""
    needed = route.opt.get(OPTION, Scope.ADMIN)  # a test finds a route that declares none
    if needed not in held and Scope.ADMIN not in held:
        theirs = ", ".join(f"'{scope}'" for scope in sorted(held))
        text = f"this call needs a key with the scope '{needed}'; this one has {theirs}"
        raise Problem(HTTPStatus.FORBIDDEN, "forbidden", text)
