"""What Litestar leaves to whoever serves it: HEAD, and WebSockets that nobody asked for."""

import re
from typing import Any

from litestar import WebSocket

from services.gateway.errors import not_found
from services.gateway.routes.events import refuse

ASGI = Any  # an application, scope, receive or send: the protocol has no types of its own
SOCKETS = re.compile(r"/v1/jobs/[^/]+/events/?")  # where there are WebSockets


def front(app: ASGI) -> ASGI:
    """The application, where HEAD is answered as GET is, without the body, and unknown WebSockets with 404."""

    async def fronted(scope: ASGI, receive: ASGI, send: ASGI) -> None:
        if scope["type"] == "http" and scope["method"] == "HEAD":
            await answer_head(app, scope, receive, send)
        elif scope["type"] == "websocket" and not SOCKETS.fullmatch(scope["path"]):
            await receive()
            await refuse(WebSocket(scope, receive, send), not_found("WebSocket"))
        else:
            await app(scope, receive, send)

    return fronted


async def answer_head(app: ASGI, scope: ASGI, receive: ASGI, send: ASGI) -> None:
    async def send_start(message: ASGI) -> None:
        """The answer ends with its head: whoever would go on, such as a stream, hears that the client has left."""
        if message["type"] == "http.response.start":
            scope["method"] = "HEAD"  # the server allows it a length without a body
            await send(message)
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    scope["method"] = "GET"
    await app(scope, receive, send_start)
