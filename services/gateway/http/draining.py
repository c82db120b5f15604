"""Draining: before it stops, a gateway reports that it is not ready and answers what still arrives."""

import asyncio
from http import HTTPStatus

import msgspec
from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from services.gateway.http.error_shapes import PROTOCOL_SHAPES, ErrorShapes, find_shape
from services.gateway.http.problems import MEDIA_TYPE, RETRY_SECONDS, Problem, ProblemBody, quote_path

STATUS = HTTPStatus.SERVICE_UNAVAILABLE
DETAIL = "shutting down; the outcome of this request is unknown"


def render_answer(path: str, shapes: ErrorShapes) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """Return the body and the headers of the answer to a request that is given up."""
    if (shape := find_shape(shapes, path)) is not None:
        _, error = shape(Problem(STATUS, "unavailable", DETAIL))
        body, media_type = msgspec.json.encode(error), "application/json"
    else:
        problem = ProblemBody(
            type="urn:charonia:problem:unavailable",
            title=STATUS.phrase,
            status=STATUS,
            detail=DETAIL,
            instance=quote_path(path),
        )
        body, media_type = msgspec.json.encode(problem), MEDIA_TYPE
    return body, [
        (b"content-type", media_type.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"retry-after", str(RETRY_SECONDS).encode()),
    ]


class DrainState:
    """Whether the gateway drains."""

    def __init__(self) -> None:
        self.draining = False

    def start(self) -> None:
        """From now on the gateway is not ready, and each answer closes its connection."""
        self.draining = True


class DrainMiddleware:
    """Closes each connection with its answer while the gateway drains.

    A kept connection would be closed by the server, perhaps just as the client sends a request over it.
    """

    def __init__(self, app: ASGIApp, state: DrainState, shapes: ErrorShapes = PROTOCOL_SHAPES) -> None:
        self._app = app
        self._shapes = shapes
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def answer(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                if self._state.draining:
                    message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            await send(message)

        try:
            await self._app(scope, receive, answer)
        except asyncio.CancelledError:  # the grace period is over; uvicorn would answer 500
            if not self._state.draining or started or scope["type"] != ScopeType.HTTP:
                raise
            body, headers = render_answer(scope["path"], self._shapes)
            await answer({"type": "http.response.start", "status": STATUS, "headers": headers})
            await answer({"type": "http.response.body", "body": body, "more_body": False})
