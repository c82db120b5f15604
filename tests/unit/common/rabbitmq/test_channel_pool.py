"""Subscriptions spread evenly over a bounded number of channels, and those of a group stay together."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

from common.rabbitmq.channel_pool import CHANNELS, SPARE_CHANNELS, ChannelPool
from common.rabbitmq.messages import Message
from common.rabbitmq.shared_channel import SharedChannel
from common.rabbitmq.subscription import Subscription
from tests.unit.clock import LATE


class Callbacks(set[object]):
    """The callbacks of a connection."""


class Connection:
    """A connection that opens no channels, because it is closed."""

    is_closed = True

    def __init__(self) -> None:
        self.close_callbacks = Callbacks()


async def process(subscription: Subscription, raw: AbstractIncomingMessage) -> None:
    raise AssertionError("nothing is consumed")


async def declare(channel: AbstractChannel) -> None:
    raise AssertionError("nothing is declared")


async def handle(message: Message, traceparent: str | None) -> None:
    raise AssertionError("nothing is handled")


@pytest.fixture
async def pool() -> AsyncIterator[ChannelPool]:
    made = ChannelPool(Connection(), process)  # type: ignore[arg-type]
    yield made
    made.end()
    await asyncio.sleep(0)


def subscription(queue: str, group: str = "") -> Subscription:
    return Subscription(queue, 1, declare, handle, group)


def count(channels: Sequence[SharedChannel]) -> list[int]:
    return [len(channel.subscriptions) for channel in channels]


async def test_each_of_a_few_groups_has_its_own_channel(pool: ChannelPool) -> None:
    channels = [pool.add(subscription(f"{group}.{queue}", f"{group}")) for group in range(CHANNELS) for queue in "abc"]
    assert len(set(channels)) == CHANNELS
    assert count(channels) == [3] * len(channels)
    assert all(len({*channels[first : first + 3]}) == 1 for first in range(0, len(channels), 3))


async def test_many_groups_share_a_bounded_number_of_channels(pool: ChannelPool) -> None:
    channels = {pool.add(subscription(f"{group}.{queue}", f"{group}")) for group in range(100) for queue in "abc"}
    assert len(channels) == CHANNELS
    assert sorted(count([*channels])) == [18] * 12 + [21] * 4


async def test_refused_subscriptions_share_a_bounded_number_of_spare_channels(pool: ChannelPool) -> None:
    for number in range(2 * SPARE_CHANNELS):
        pool._set_apart(subscription(f"{number}"))
    assert count(pool._spare) == [2] * SPARE_CHANNELS


async def test_queues_are_probed_in_turns(pool: ChannelPool) -> None:
    queues = [f"{number}" for number in range(5)]
    for queue in queues:
        pool.add(subscription(queue)).consumed[queue] = (None, "")  # type: ignore[assignment]
    turns = [[queue for queue, _ in pool.take_turn(2)] for _ in range(3)]
    assert turns == [["0", "1"], ["2", "3"], ["4", "0"]]
    assert len(pool.take_turn(10)) == len(queues), "none twice in a turn"


async def test_nobody_waits_for_a_lost_connection(pool: ChannelPool) -> None:
    pool.add(subscription("a"))
    async with asyncio.timeout(LATE):
        await pool.wait_until_tried(60)
