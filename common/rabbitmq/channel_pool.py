"""The channels that consume a process's queues, over one connection.

docs/decisions/0019-shared-channels.md says why there is not one for each queue.
"""

import asyncio
from collections.abc import Callable, Iterator

from aio_pika.abc import AbstractConnection

from common.rabbitmq.shared_channel import Process, SharedChannel
from common.rabbitmq.subscription import Subscription

CHANNELS = 16
SPARE_CHANNELS = 4  # for queues that refused their consumer once


class ChannelPool:
    """Spreads subscriptions over at most CHANNELS channels; those of a group share one.

    A refused consumer closes its channel. Its subscription then moves to one of SPARE_CHANNELS, so that it disturbs its
    neighbours once. All return with the next connection, which has a pool of its own.
    """

    def __init__(self, connection: AbstractConnection, process: Process) -> None:
        self._connection = connection
        self._process = process
        self._channels: list[SharedChannel] = []
        self._spare: list[SharedChannel] = []
        self._groups: dict[str, SharedChannel] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._turned = 0  # a count of the queues that take_turn() has returned
        connection.close_callbacks.add(self.end)

    def add(self, subscription: Subscription) -> SharedChannel:
        """Consume a queue from now on. Return its channel."""
        group = subscription.group or subscription.queue
        channel = self._groups.get(group) or self._choose(self._channels, CHANNELS, self._set_apart)
        self._groups[group] = channel
        channel.add(subscription)
        return channel

    @property
    def consumed(self) -> int:
        """The number of queues that are consumed now."""
        return sum(len(channel.consumed) for channel in self._all())

    @property
    def is_settled(self) -> bool:
        """Whether each subscription was tried."""
        return all(channel.settled.is_set() for channel in self._all())

    async def wait_until_tried(self, seconds: float) -> None:
        """Wait until each subscription was tried once or the connection is lost, but not longer than `seconds`."""
        waiting = [asyncio.create_task(channel.settled.wait()) for channel in self._all()]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=seconds)
            for task in late:
                task.cancel()

    def take_turn(self, count: int) -> list[tuple[str, SharedChannel]]:
        """Return the next `count` queues that are consumed, in turns, with their channels."""
        consumed = [(queue, channel) for channel in self._all() for queue in channel.consumed]
        first = self._turned % len(consumed) if consumed else 0
        self._turned = first + count
        return [*consumed[first:], *consumed[:first]][:count]

    async def stop(self) -> None:
        """Take no more messages. The connection stays open, and messages that came before may still be acked."""
        self.end()
        await asyncio.gather(*(channel.cancel_consumers() for channel in self._all()))

    def end(self, *_: object) -> None:
        """Consume nothing anew. Called when the connection is closed."""
        for task in self._tasks:
            task.cancel()

    def _all(self) -> Iterator[SharedChannel]:
        yield from self._channels
        yield from self._spare

    def _choose(
        self, channels: list[SharedChannel], limit: int, on_refused: Callable[[Subscription], None] | None = None
    ) -> SharedChannel:
        """Return a new channel, or the one with the fewest subscriptions when there are `limit`."""
        if len(channels) >= limit:
            return min(channels, key=lambda channel: len(channel.subscriptions))
        channel = SharedChannel(self._connection, self._process, on_refused)
        channels.append(channel)
        task = asyncio.create_task(channel.run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return channel

    def _set_apart(self, subscription: Subscription) -> None:
        self._choose(self._spare, SPARE_CHANNELS).add(subscription)
