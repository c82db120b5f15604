"""Refusing WebSockets with an HTTP answer (the ASGI extension Websocket Denial Response)."""

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

import msgspec
from litestar import WebSocket
from litestar.enums import ScopeType
from litestar.types import ASGIApp, Receive, Scope, Send

from common.errors import Unavailable
from services.gateway.http.error_responses import answer_problem, answer_unavailable
from services.gateway.http.problems import MEDIA_TYPE, Problem

TEXT = "there is no WebSocket at this path; that of a job is /v1/jobs/{id}/events"
PARAMETER = re.compile(r"{[^}]+}")


class UnknownSocketMiddleware:
    """Answers 404 to a WebSocket on an unknown path; Litestar would close it without an answer."""

    def __init__(self, app: ASGIApp, paths: Iterable[str]) -> None:
        """`paths` are the templates of the known ones."""
        self._app = app
        self._paths = re.compile("|".join(PARAMETER.sub("[^/]+", path) + "/?" for path in paths))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == ScopeType.WEBSOCKET and not self._paths.fullmatch(scope["path"]):
            await receive()
            await refuse_socket(WebSocket(scope, receive, send), Problem(HTTPStatus.NOT_FOUND, "not_found", TEXT))
        else:
            await self._app(scope, receive, send)


async def refuse_socket(socket: WebSocket[Any, Any, Any], error: Problem | Unavailable) -> None:
    """Refuse a WebSocket that was not accepted yet, as an HTTP request is refused."""
    answer = answer_problem(socket, error) if isinstance(error, Problem) else answer_unavailable(socket, error)
    headers = {"content-type": MEDIA_TYPE, **answer.headers}
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    start: Any = {"type": "websocket.http.response.start", "status": answer.status_code, "headers": raw}
    body: Any = {"type": "websocket.http.response.body", "body": msgspec.json.encode(answer.content)}
    await socket.send(start)
    await socket.send(body)
