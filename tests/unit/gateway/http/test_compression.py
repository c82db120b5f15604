"""Bodies packed and unpacked, within bounds."""

import gc
import gzip
import os
import tracemalloc
import zlib
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from litestar.exceptions.http_exceptions import RequestEntityTooLarge

from services.gateway.http.compression import choose_encoding, compress, decompress, read_body
from services.gateway.http.limits.body_limits import LEASE, BodyBudget, BodyDeadlines, BodyLease
from services.gateway.http.problems import Problem
from services.gateway.http.worker_processes import LARGE

BODY = b"charonia" * 100


@pytest.mark.parametrize("packed", [gzip.compress(BODY), zlib.compress(BODY)], ids=["gzip", "zlib"])
def test_a_body_is_unpacked_up_to_its_limit(packed: bytes) -> None:
    assert decompress(packed, len(BODY)) == BODY
    with pytest.raises(RequestEntityTooLarge):
        decompress(packed, len(BODY) - 1)


def test_a_bomb_takes_no_memory_beyond_the_limit() -> None:
    bomb = zlib.compress(bytes(16 * 1024 * 1024))
    tracemalloc.start()
    try:
        with pytest.raises(RequestEntityTooLarge):
            decompress(bomb, len(BODY))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 1024 * 1024


@pytest.mark.parametrize("size", [len(BODY), LARGE + 1])
async def test_a_body_is_read_here_or_beside_the_event_loop(size: int) -> None:
    body = os.urandom(size)

    async def stream() -> AsyncIterator[bytes]:
        yield gzip.compress(body)

    scope = {LEASE: BodyLease(BodyBudget(8 * size), BodyDeadlines())}
    headers = {"content-encoding": "gzip"}
    request = SimpleNamespace(headers=headers, scope=scope, stream=stream)
    assert await read_body(cast("Any", request), 2 * size) == body
    gc.collect()  # tells of what was never awaited


async def test_a_small_body_fits_although_the_limit_does_not() -> None:
    async def stream() -> AsyncIterator[bytes]:
        yield gzip.compress(BODY)

    budget = BodyBudget(4 * len(BODY))
    scope = {LEASE: BodyLease(budget, BodyDeadlines())}
    request = SimpleNamespace(headers={"content-encoding": "gzip"}, scope=scope, stream=stream)
    assert await read_body(cast("Any", request), 10 * len(BODY)) == BODY
    assert budget.free == 3 * len(BODY)


@pytest.mark.parametrize(
    "packed",
    [b"", BODY, gzip.compress(BODY)[:-1], gzip.compress(BODY) + b"1"],
    ids=["empty", "not packed", "cut short", "too long"],
)
def test_a_body_that_can_not_be_unpacked_is_refused(packed: bytes) -> None:
    with pytest.raises(Problem, match="the body cannot be decompressed") as refused:
        decompress(packed, 10_000)
    assert refused.value.status == 400


@pytest.mark.parametrize(("encoding", "undo"), [("gzip", gzip.decompress), ("deflate", zlib.decompress)])
def test_an_answer_is_packed_as_http_means_it(encoding: str, undo: object) -> None:
    assert callable(undo)
    assert undo(compress(BODY, encoding)) == BODY


@pytest.mark.parametrize(
    ("accepted", "chosen"),
    [
        (None, None),
        ("", None),
        ("identity", None),
        ("br", None),
        ("gzip", "gzip"),
        ("deflate", "deflate"),
        ("GZIP, deflate", "gzip"),
        ("gzip;q=0, deflate;q=0.5", "deflate"),
        ("gzip; q=0.2, deflate", "deflate"),
        ("*", "gzip"),
        ("gzip;q=0, *;q=0", None),
        ("gzip;q=high", None),
    ],
)
def test_an_encoding_is_what_the_client_likes_best(accepted: str | None, chosen: str | None) -> None:
    assert choose_encoding(accepted) == chosen
