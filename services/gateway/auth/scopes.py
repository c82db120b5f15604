"""Scopes: what an API key may do. Each route names its scope once, in its decorator: `**needs(Scope.READ)`."""

from collections.abc import Collection
from enum import StrEnum
from typing import Any

from litestar.handlers import BaseRouteHandler

from services.gateway.http.problems import forbidden

OPTION = "scope"
OWN_AUTHENTICATION = "exclude_from_auth"  # Litestar's option of a route whose handler authenticates the caller itself


class Scope(StrEnum):
    """What an API key may do."""

    SUBMIT = "submit"  # submit, cancel and retry jobs
    READ = "read"  # read anything but secrets and keys
    ADMIN = "admin"  # webhooks, secrets, dead letters and erasure, and all that the other scopes allow


ALL = frozenset(Scope)
USUAL = frozenset({Scope.SUBMIT, Scope.READ})  # of a key for which an operator names no scope


def read_scopes(names: Collection[str]) -> frozenset[Scope]:
    """Return the scopes with these names. One of a later release allows nothing here."""
    return frozenset(scope for scope in Scope if scope in names)


def needs(scope: Scope, **options: Any) -> dict[str, Any]:
    """Return arguments for a route's decorator: the scope that is checked, and its OpenAPI."""
    return {"opt": {OPTION: scope, **options}, "security": [{"key": [scope.value]}]}


def check_scope(route: BaseRouteHandler, held: Collection[Scope]) -> None:
    """Raise Problem (403) if a key with these scopes may not call the route."""
    needed = route.opt.get(OPTION, Scope.ADMIN)  # a test finds routes without a scope
    if needed not in held and Scope.ADMIN not in held:
        own = ", ".join(f"'{scope}'" for scope in sorted(held))
        text = f"this call needs a key with the scope '{needed}'; the key has {own}"
        raise forbidden(text)
