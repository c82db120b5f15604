"""Whether load balancers are to send requests here."""

import asyncio
from http import HTTPStatus
from typing import Any

import msgspec

from services.gateway.errors import MEDIA_TYPE, RETRY_SECONDS, ProblemBody

BODY = msgspec.json.encode(
    ProblemBody(
        type="urn:charonia:problem:unavailable",
        title=HTTPStatus.SERVICE_UNAVAILABLE.phrase,
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        detail="this gateway stops, and what it waits for has not answered; it is not known what came of the request",
        instance="",
    )
)
HEADERS = [
    (b"content-type", MEDIA_TYPE.encode()),
    (b"content-length", str(len(BODY)).encode()),
    (b"retry-after", str(RETRY_SECONDS).encode()),
]


class Rotation:
    """A gateway that is to stop leaves first: it says so, and answers until nobody sends it anything any more."""

    def __init__(self) -> None:
        self.left = False

    def leave(self) -> None:
        self.left = True

    def guard(self, app: Any) -> Any:
        """The ASGI application; once it has left, each answer ends its connection.

        So none is kept until the server closes it, perhaps in the very moment in which a request is sent over it.
        """

        async def guarded(scope: Any, receive: Any, send: Any) -> None:
            started = False

            async def answer(message: Any) -> None:
                nonlocal started
                if message["type"] == "http.response.start":
                    started = True
                    if self.left:
                        message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
                await send(message)

            try:
                await app(scope, receive, answer)
            except asyncio.CancelledError:  # the grace is over; uvicorn would answer 500
                if not self.left or started or scope["type"] != "http":
                    raise
                await answer(
                    {"type": "http.response.start", "status": HTTPStatus.SERVICE_UNAVAILABLE, "headers": HEADERS}
                )
                await answer({"type": "http.response.body", "body": BODY})

        return guarded
