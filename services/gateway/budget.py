"""A bound on the bytes of all request bodies being worked on: memory is given out before it is taken."""

from http import HTTPStatus
from typing import Any

from services.gateway.errors import LATER, Problem

HELD = "charonia.held"  # where a scope keeps how much its request holds


def overloaded() -> Problem:
    text = "too many large requests at once; try again soon"
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, "overloaded", text, headers=LATER)


def too_large(limit: int) -> Problem:
    text = f"the body, with what its inputs become, is over the limit of {limit} bytes; send less at a time"
    return Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body_too_large", text)


class Budget:
    def __init__(self, total: int, each: int) -> None:
        """`total` bytes for all bodies, `each` for one that does not say its length."""
        self.total = self.left = total
        self.each = each

    def take(self, scope: Any, length: str | None) -> None:
        """Once for a request; `length` is its Content-Length. Raises Problem (503) where there is no room now."""
        if HELD in scope:
            return
        wanted = min(int(length), self.each) if length and length.isascii() and length.isdigit() else self.each
        if wanted > self.left:
            raise overloaded()
        self.left -= wanted
        scope[HELD] = wanted

    def grow(self, scope: Any, size: int) -> None:
        """For a body that is read as it arrives: so many bytes more.

        Raises Problem: 503 where there is no room now, 413 where there never is.
        """
        if scope.get(HELD, 0) + size > self.total:
            raise too_large(self.total)
        if size > self.left:
            raise overloaded()
        self.left -= size
        scope[HELD] = scope.get(HELD, 0) + size

    def release(self, scope: Any) -> None:
        """Before the request's end, where its body is no longer held."""
        self.left += scope.pop(HELD, 0)

    def guard(self, app: Any) -> Any:
        """The ASGI application, after each of whose requests the room is given back."""

        async def guarded(scope: Any, receive: Any, send: Any) -> None:
            try:
                await app(scope, receive, send)
            finally:
                self.release(scope)

        return guarded
