"""How long is waited for whoever does not read."""

import asyncio
from collections.abc import Iterator

import pytest

from services.gateway.http.limits.write_timeout import WriteTimeout
from tests.unit.clock import LATE


class Transport(asyncio.Transport):
    """What waits to be sent, at each look; then nothing is taken any more."""

    def __init__(self, sizes: Iterator[int]) -> None:
        super().__init__()
        self.sizes = sizes
        self.aborted = asyncio.Event()

    def get_write_buffer_size(self) -> int:
        return next(self.sizes, 7)

    def abort(self) -> None:
        self.aborted.set()


def connect(*sizes: int) -> tuple[WriteTimeout, Transport]:
    transport = Transport(iter(sizes))
    connection = WriteTimeout()
    connection.seconds = 0.001
    connection.transport = transport
    return connection, transport


@pytest.mark.parametrize("sizes", [[7], [9, 8, 8, 7]])
async def test_who_takes_nothing_is_cut(sizes: list[int]) -> None:
    connection, transport = connect(*sizes)
    connection.pause_writing()
    await asyncio.wait_for(transport.aborted.wait(), LATE)


async def test_who_takes_a_little_is_waited_for() -> None:
    """To the end, or to the last look before it takes nothing."""
    left = [9, 8, 8, 7, 7, 6, 6, 5, 5, 4, 4]
    connection, transport = connect(*left, 4)
    connection.pause_writing()
    await asyncio.wait_for(transport.aborted.wait(), LATE)
    assert next(transport.sizes, None) is None


async def test_who_reads_on_or_leaves_is_left_alone() -> None:
    for end in (WriteTimeout.resume_writing, lambda connection: connection.connection_lost(None)):
        connection, transport = connect()
        connection.pause_writing()
        end(connection)
        other, stalled = connect()
        other.pause_writing()
        await asyncio.wait_for(stalled.aborted.wait(), LATE)  # its time came later
        assert not transport.aborted.is_set()
