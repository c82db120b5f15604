"""HEAD and OPTIONS, which Litestar does not answer completely."""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from litestar import HttpMethod, Request, Response
from litestar.enums import ScopeType
from litestar.routes import HTTPRoute
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

IS_HEAD = "charonia.head"  # a key of the ASGI scope of a HEAD, which looks like a GET to handlers


class HeadMiddleware:
    """Answers HEAD like GET, without the body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == ScopeType.HTTP and scope["method"] == HttpMethod.HEAD:
            await self._answer_head(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _answer_head(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        async def send_start(message: Message) -> None:
            """End the answer after its head; a stream then sees the client disconnect."""
            if message["type"] == "http.response.start":
                scope["method"] = HttpMethod.HEAD  # the server allows a length without a body for it
                await send(message)
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        scope["method"] = HttpMethod.GET
        scope[IS_HEAD] = True  # type: ignore[literal-required]
        await self._app(scope, receive, send_start)


async def answer_options(request: Request[Any, Any, Any]) -> Response[None] | None:
    """Answer OPTIONS for Litestar, which forgets methods if several handlers share a path."""
    if request.method != HttpMethod.OPTIONS:
        return None
    path = request.scope["path_template"]
    routes = (each for each in request.app.routes if isinstance(each, HTTPRoute) and each.path_format == path)
    allowed = {str(method) for route in routes for method in route.methods}
    return Response(None, status_code=HTTPStatus.NO_CONTENT, headers={"Allow": list_methods(allowed)})


def list_methods(methods: Iterable[str]) -> str:
    """Return the value of an Allow header; GET implies HEAD."""
    allowed = set(methods)
    return ", ".join(sorted(allowed | {"HEAD"} if "GET" in allowed else allowed))
