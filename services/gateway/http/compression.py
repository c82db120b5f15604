"""Compressed request bodies, and answers compressed as Accept-Encoding asks."""

import asyncio
import gzip
import zlib
from http import HTTPStatus
from typing import Any

from litestar import Request
from litestar.exceptions.http_exceptions import RequestEntityTooLarge

from services.gateway.http.bodies import read_whole
from services.gateway.http.limits.body_limits import find_lease
from services.gateway.http.negotiation import read_weights
from services.gateway.http.problems import Problem
from services.gateway.http.worker_processes import LARGE

GZIP_OR_DEFLATE = 32 + zlib.MAX_WBITS  # zlib detects which
ENCODINGS = ("gzip", "deflate")
MAX_RATIO = 1032  # of deflate: 258 bytes for 2 bits
LEVEL = 1  # higher levels hardly shrink tensors further


async def read_body(request: Request[Any, Any, Any], limit: int) -> bytes:
    """Return the decompressed body, of at most `limit` bytes; raises Problem (400, 408, 413, 415, 503)."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", *ENCODINGS):
        text = f"the body's Content-Encoding is '{encoding[:100]}'; expected one of {', '.join(ENCODINGS)}"
        raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", text)
    compressed = encoding != "identity"
    body = await read_whole(request)
    if not compressed:
        return body
    lease = find_lease(request.scope)
    limit = min(limit, lease.most)  # a small body must not fail because it could be a large one
    lease.grow(min(limit, len(body) * MAX_RATIO))
    # zlib releases the interpreter's lock, so a thread is enough.
    found = await asyncio.to_thread(decompress, body, limit) if len(body) > LARGE else decompress(body, limit)
    lease.resize(len(found))
    return found


def decompress(body: bytes, limit: int) -> bytes:
    """Return the decompressed body; never produces more than `limit` + 1 bytes."""
    stream = zlib.decompressobj(GZIP_OR_DEFLATE)
    try:
        found = stream.decompress(body, limit + 1)
    except zlib.error as error:
        raise corrupt("it is damaged, or not of the encoding that Content-Encoding names") from error
    if len(found) > limit:
        raise RequestEntityTooLarge
    if not stream.eof or stream.unused_data:
        raise corrupt("data follows its end" if stream.eof else "it is truncated")
    return found


def corrupt(reason: str) -> Problem:
    return Problem(HTTPStatus.BAD_REQUEST, "malformed_body", f"the body cannot be decompressed: {reason}")


def choose_encoding(accepted: str | None) -> str | None:
    """Return the supported encoding that Accept-Encoding weighs highest; None to send the body as it is."""
    weights = read_weights(accepted or "")
    known = {name: weights.get(name, weights.get("*", 0.0)) for name in ENCODINGS}
    best = max(ENCODINGS, key=lambda name: known[name])
    return best if known[best] > 0 else None


def compress(body: bytes, encoding: str) -> bytes:
    return gzip.compress(body, LEVEL, mtime=0) if encoding == "gzip" else zlib.compress(body, LEVEL)
