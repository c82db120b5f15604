"""Reading request bodies within their limits, and decoding them with JSON pointers to what is wrong."""

import asyncio
import re
from codecs import BOM_UTF8
from collections.abc import AsyncIterator
from http import HTTPStatus
from itertools import islice
from typing import Any

import msgspec
from litestar import Request
from litestar.types import Empty

from services.gateway.http.limits.body_limits import BODY_SECONDS, STALL_SECONDS, find_lease
from services.gateway.http.negotiation import check_json
from services.gateway.http.problems import MAX_ERRORS, FieldError, Problem, escape, invalid
from services.gateway.http.validation.field_errors import find_errors, read_type
from services.gateway.http.validation.json_syntax import explain_syntax

PATH = re.compile(r" - at `\$(.*)`$")
STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
TWICE = "is given more than once, and not each time with a valid value; give it once"
SYNTAX_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class ApiRequest(Request[Any, Any, Any]):
    """A request whose body is limited in time and in memory."""

    async def body(self) -> bytes:
        check_json(self.headers)
        if self._body is Empty and self._connection_state.body is Empty:
            self._connection_state.body = await read_whole(self)
        return await super().body()

    async def json(self) -> Any:
        """Return the body as the type that the handler takes.

        Litestar decodes to plain objects first and converts them, which loses strictness and pointers.
        """
        field = self.route_handler.parsed_data_field
        assert field is not None, "Litestar calls this only for a handler that takes a body"
        return decode_body(await self.body(), field.annotation)


async def read_whole(request: Request[Any, Any, Any]) -> bytes:
    """Return the whole body. Raises as `read_chunks` does."""
    body = bytearray()
    async for chunk in read_chunks(request):
        body += chunk
    return bytes(body)


async def read_chunks(request: Request[Any, Any, Any]) -> AsyncIterator[bytes]:
    """Yield the body as it arrives, and hold memory for it. Raises Problem (408, 413, 503)."""
    lease = find_lease(request.scope)
    clock = asyncio.get_running_loop().time
    deadline = clock() + BODY_SECONDS
    stream = request.stream()
    while True:
        async with lease.deadlines.enforce(min(deadline, clock() + STALL_SECONDS)):
            chunk = await anext(stream, b"")
        if not chunk:
            return
        lease.grow(len(chunk))
        yield chunk


def forget_body(request: Request[Any, Any, Any]) -> None:
    """Free the body before a long wait. Litestar keeps it in two places."""
    request._body = request._connection_state.body = b""
    find_lease(request.scope).release()


def decode_body(body: bytes | str, kind: Any, what: str = "the body") -> Any:
    """Decode JSON to a type; raises Problem: 400 for bad JSON, 422 with a pointer for each bad field.

    A byte order mark is ignored, as RFC 8259 allows. The errors call the JSON `what`.
    """
    if isinstance(body, bytes):
        body = body.removeprefix(BOM_UTF8)
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise invalid(*explain_fields(body, kind, error, what)) from error
    except SYNTAX_ERRORS as error:
        raise malformed(body, error, what) from error


def malformed(body: bytes | str, error: Exception, what: str = "the body") -> Problem:
    """Return the problem of a body that a decoder refused with this error."""
    text = explain_syntax(body.encode(errors="replace") if isinstance(body, str) else body, error, what)
    return Problem(HTTPStatus.BAD_REQUEST, "malformed_json", text)


def explain_fields(
    body: bytes | str, kind: Any, error: msgspec.ValidationError, what: str = "the body"
) -> list[FieldError]:
    """Return what is wrong in a body that does not fit a type. Raises Problem (400) if it is not even JSON."""
    try:
        value = msgspec.json.decode(body)
    except msgspec.ValidationError:  # a number beyond those of 64 bits, even without a type
        pointer = locate(str(error)) if "out of range" in str(error) else ""
        return [FieldError(pointer, f"{'has' if pointer else f'{what} has'} a number that is too large")]
    except SYNTAX_ERRORS as syntax_error:
        raise malformed(body, syntax_error, what) from syntax_error
    found = list(islice(find_errors(value, read_type(kind)), MAX_ERRORS)) or [
        FieldError(locate(str(error)), TWICE)  # the last of two values counts, and that one is valid
    ]
    return [each if each.pointer else FieldError("", f"{what} {each.detail}") for each in found]


def locate(message: str) -> str:
    """Return the JSON pointer in an error message of msgspec."""
    found = PATH.search(message)
    steps = [name or index for name, index in STEP.findall(found.group(1))] if found else []
    if "..." in steps:  # msgspec does not name the key: point at the object
        steps = steps[: steps.index("...")]
    return "".join("/" + escape(step) for step in steps)
