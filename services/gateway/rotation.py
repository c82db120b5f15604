"""Whether load balancers are to send requests here."""

from typing import Any


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
            async def answer(message: Any) -> None:
                if self.left and message["type"] == "http.response.start":
                    message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
                await send(message)

            await app(scope, receive, answer)

        return guarded
