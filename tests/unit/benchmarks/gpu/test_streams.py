"""Streams of tokens are counted, and each must be complete."""

from collections.abc import AsyncIterator
from itertools import chain, repeat

import pytest

from benchmarks.gpu.streams import measure_streams, read_tokens
from benchmarks.harness.load_generator import LEAD_SECONDS

TICK = LEAD_SECONDS / 4
EVENTS = b"""\
:
retry: 1000
id: 0.0
event: job.queued
data: {"type":"job.queued","data":{"status":"queued"}}

id: 1.1
event: job.output
data: {"type":"job.output","data":{"outputs":[{"name":"token","data":[[7]],"response":0}]}}

id: 1.3
event: job.output
data: {"type":"job.output","data":{"outputs":[{"name":"token","response":1},{"name":"token","response":2}]}}

id: 1.2147483647
event: job.succeeded
data: {"type":"job.succeeded","data":{"outputs":[{"name":"token","response":0}]}}
"""


async def each_line() -> AsyncIterator[bytes]:
    for line in EVENTS.splitlines(keepends=True):
        yield line


async def test_only_outputs_bring_tokens() -> None:
    assert [count async for count in read_tokens(each_line())] == [1, 2]


class Clock:
    """Each look at it is a tick later."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += TICK
        return self.now


async def test_tokens_and_first_tokens_of_the_seconds_that_count() -> None:
    async def start() -> AsyncIterator[int]:
        for _ in range(3):
            yield 1

    # Streams are sent at ticks 2, 6, …; the lead ends at tick 5 and the load at tick 15.
    figures = await measure_streams(start, 1, 10 * TICK, 3, Clock())
    assert (figures["jobs"], figures["failed"]) == (4, 0)
    assert figures["counted"] == 3 + 3 + 1
    assert figures["first.p50"] == pytest.approx(TICK * 1000)


async def test_a_stream_without_all_its_tokens_has_failed() -> None:
    lengths = chain([3, 2], repeat(3))

    async def start() -> AsyncIterator[int]:
        for _ in range(next(lengths)):
            yield 1

    figures = await measure_streams(start, 1, 1.0, 3, Clock())
    assert figures["failed"] == 1


async def test_a_stream_that_breaks_off_has_failed() -> None:
    async def start() -> AsyncIterator[int]:
        for _ in range(3):
            yield 1
        raise ConnectionResetError

    figures = await measure_streams(start, 2, 1.0, 3, Clock())
    assert figures["failed"] == figures["jobs"] >= 2
