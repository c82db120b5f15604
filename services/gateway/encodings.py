"""Bodies that come packed, and are packed where the client wants it so."""

import asyncio
import gzip
import zlib
from http import HTTPStatus
from typing import Any

from litestar import Request
from litestar.exceptions.http_exceptions import RequestEntityTooLarge

from services.gateway.bodies import in_time
from services.gateway.errors import Problem
from services.gateway.media import read_weights
from services.gateway.workers import LARGE

EITHER = 32 + zlib.MAX_WBITS  # zlib finds out whether it is gzip or deflate
ENCODINGS = ("gzip", "deflate")
LEVEL = 1  # tensors hardly shrink further


async def read_body(request: Request[Any, Any, Any]) -> bytes:
    """The body, unpacked, kept nowhere else; raises Problem (400, 408, 415, 503), or 413 where it is too large."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", *ENCODINGS):
        text = f"the body's encoding is '{encoding[:100]}', not one of {', '.join(ENCODINGS)}"
        raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", text)
    packed = encoding != "identity"
    # What it unpacks to is not known before, so it counts as the largest that is allowed.
    request.app.state.budget.take(request.scope, None if packed else request.headers.get("content-length"))
    body = await in_time(request, collect(request))
    if not packed:
        return body
    unpacking = (body, request.app.state.max_body)
    # zlib lets go of the interpreter, so a thread is enough.
    return await asyncio.to_thread(unpack, *unpacking) if len(body) > LARGE else unpack(*unpacking)


async def collect(request: Request[Any, Any, Any]) -> bytes:
    return b"".join([chunk async for chunk in request.stream()])


def unpack(body: bytes, limit: int) -> bytes:
    """Never more than `limit` bytes come to be."""
    unpacker = zlib.decompressobj(EITHER)
    try:
        found = unpacker.decompress(body, limit + 1)
    except zlib.error as error:
        raise broken(str(error)) from error
    if len(found) > limit:
        raise RequestEntityTooLarge
    if not unpacker.eof or unpacker.unused_data:
        raise broken("it ends too late" if unpacker.eof else "it ends too early")
    return found


def broken(why: str) -> Problem:
    return Problem(HTTPStatus.BAD_REQUEST, "malformed_body", f"the body can't be unpacked: {why}")


def choose_encoding(accepted: str | None) -> str | None:
    """What Accept-Encoding likes best of what there is; None for the body as it is."""
    weights = read_weights(accepted or "")
    liked = {name: weights.get(name, weights.get("*", 0.0)) for name in ENCODINGS}
    best = max(ENCODINGS, key=lambda name: liked[name])
    return best if liked[best] > 0 else None


def pack(body: bytes, encoding: str) -> bytes:
    return gzip.compress(body, LEVEL, mtime=0) if encoding == "gzip" else zlib.compress(body, LEVEL)
