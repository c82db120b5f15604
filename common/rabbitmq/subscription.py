"""What a process consumes."""

from collections.abc import Awaitable, Callable

import msgspec
from aio_pika.abc import AbstractChannel

from common.rabbitmq.messages import Message


class Subscription(msgspec.Struct, frozen=True):
    """A queue, and what handles its messages.

    `handle` gets the message and the traceparent that came with it. It returns (ack), or raises Retry (requeue), Reject
    (dead-letter), or UnknownMessage for one of a kind that does not belong in the queue (ack). It is cancelled when its
    channel is lost; the broker then delivers the message again.
    Subscriptions of one `group` share a channel, such as those of one model.
    """

    queue: str
    prefetch: int
    declare: Callable[[AbstractChannel], Awaitable[None]]
    handle: Callable[[Message, str | None], Awaitable[None]]
    group: str = ""
