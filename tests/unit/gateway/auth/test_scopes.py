"""What a key may do, and that every call says what it needs."""

from http import HTTPStatus
from typing import Any

import pytest
from litestar import Litestar
from litestar.handlers import BaseRouteHandler, get
from litestar.routes import ASGIRoute, HTTPRoute

from services.gateway.auth.scopes import ALL, OPTION, Scope, check_scope, needs, read_scopes
from services.gateway.commands.openapi import build_unconnected
from services.gateway.http.problems import Problem

PUBLIC = (
    "/v2/health/",
    "/healthz",
    "/readyz",
    "/metrics",
    "/openapi.json",
    "/docs",
    "/console",
)  # beside what is served below these


@pytest.fixture(scope="module")
async def app() -> Litestar:
    return await build_unconnected()


def list_handlers(app: Litestar) -> list[tuple[str, BaseRouteHandler]]:
    """Every call with its path, but for the answers to OPTIONS that Litestar adds."""
    found: list[tuple[str, BaseRouteHandler]] = []
    for route in app.routes:
        if isinstance(route, HTTPRoute):
            found += [(route.path, each) for each in route.route_handlers if each.http_methods != {"OPTIONS"}]
        else:
            found.append((route.path, route.route_handler))
            assert not isinstance(route, ASGIRoute), route.path
    return found


def test_every_call_that_needs_a_key_says_with_which_scope(app: Litestar) -> None:
    calls = [
        (path, handler)
        for path, handler in list_handlers(app)
        if not path.startswith(PUBLIC) and path not in ("/", "/v2")
    ]
    assert len(calls) >= 26
    assert [path for path, handler in calls if handler.opt.get(OPTION) not in list(Scope)] == []


def test_the_scope_is_in_the_openapi_document(app: Litestar) -> None:
    paths: dict[str, Any] = app.openapi_schema.to_schema()["paths"]
    assert paths["/v1/jobs"]["post"]["security"] == [{"key": ["submit"]}]
    assert paths["/v1/jobs/{job_id}"]["get"]["security"] == [{"key": ["read"]}]
    assert paths["/v1/webhook-secret"]["get"]["security"] == [{"key": ["admin"]}]
    assert "403" in paths["/v1/jobs"]["post"]["responses"]


@get("/", sync_to_thread=False, **needs(Scope.READ))
def read_something() -> None: ...


@get("/", sync_to_thread=False)
def forgotten() -> None: ...


@pytest.mark.parametrize("held", [{Scope.READ}, {Scope.ADMIN}, set(Scope)])
def test_a_key_with_the_scope_is_let_in_and_admin_has_them_all(held: set[Scope]) -> None:
    check_scope(read_something, held)


def test_a_key_without_it_is_told_which_it_needs() -> None:
    with pytest.raises(Problem, match="'read'; the key has 'submit'") as caught:
        check_scope(read_something, {Scope.SUBMIT})
    assert (caught.value.status, caught.value.code) == (HTTPStatus.FORBIDDEN, "forbidden")


def test_what_declares_none_is_the_administrators() -> None:
    with pytest.raises(Problem, match="'admin'"):
        check_scope(forgotten, {Scope.SUBMIT, Scope.READ})
    check_scope(forgotten, {Scope.ADMIN})


def test_scopes_of_a_later_release_are_left_out() -> None:
    assert read_scopes(["submit", "replay"]) == {Scope.SUBMIT}
    assert read_scopes(ALL) == ALL
    assert all(isinstance(scope, Scope) for scope in read_scopes(["read"]))
