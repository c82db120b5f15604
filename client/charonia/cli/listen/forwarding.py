"""Forwards the events of the feed to a local server: each until it is accepted, those of a job in order."""

import asyncio
import time
from collections import deque
from collections.abc import Callable

import msgspec

from charonia.cli.listen.fed_events import FedEvent
from charonia.cli.listen.local_receiver import Answer, LocalReceiver
from charonia.retry import choose_delay

CONCURRENCY = 32  # requests under way
MOST_EVENTS, MOST_BYTES = 1000, 32 * 1024 * 1024  # read ahead; an event may be over it alone
LONGEST_PAUSE = 5.0  # seconds between two tries


class Delivery(msgspec.Struct):
    """An event on its way. `first_tried_at` is a time of the monotonic clock."""

    event: FedEvent
    tries: int = 0
    first_tried_at: float = 0.0


class Forwarding:
    """Takes events, and sends them with CONCURRENCY workers. Each job has a queue, so that one waits for no other.

    `show` is called after each try: with the delivery, the answer, and whether it is given up. `finish` is called when
    an event needs no more tries.
    """

    def __init__(
        self,
        receiver: LocalReceiver,
        give_up_after: float,
        show: Callable[[Delivery, Answer, bool], None],
        finish: Callable[[FedEvent], None],
    ) -> None:
        self._receiver = receiver
        self._give_up_after = give_up_after
        self._show = show
        self._finish = finish
        self._queues: dict[str, deque[Delivery]] = {}
        self._due: asyncio.Queue[str] = asyncio.Queue()  # keys of the queues whose first event may be sent
        self._count = self._size = 0
        self._has_changed = asyncio.Event()

    async def add(self, event: FedEvent) -> None:
        """Take an event as soon as there is room for it."""
        while self._count >= MOST_EVENTS or (self._count and self._size + len(event.body) > MOST_BYTES):
            self._has_changed.clear()
            await self._has_changed.wait()
        self._count += 1
        self._size += len(event.body)
        queue = self._queues.setdefault(event.order_key, deque())
        queue.append(Delivery(event))
        if len(queue) == 1:
            self._due.put_nowait(event.order_key)

    async def work(self) -> None:
        """Send what is due, until canceled."""
        while True:
            key = await self._due.get()
            delivery = self._queues[key][0]
            if not delivery.tries:
                delivery.first_tried_at = time.monotonic()
            answer = await self._receiver.send(delivery.event)
            delivery.tries += 1
            pause = 0.0 if answer.error is None else min(LONGEST_PAUSE, choose_delay(delivery.tries, None))
            spent = time.monotonic() - delivery.first_tried_at
            is_given_up = answer.error is not None and spent + pause > self._give_up_after
            if answer.error is None or is_given_up:
                self._remove_first(key)
                self._finish(delivery.event)
            else:
                asyncio.get_running_loop().call_later(pause, self._due.put_nowait, key)
            self._show(delivery, answer, is_given_up)

    def _remove_first(self, key: str) -> None:
        queue = self._queues[key]
        removed = queue.popleft()
        if queue:
            self._due.put_nowait(key)
        else:
            del self._queues[key]
        self._count -= 1
        self._size -= len(removed.event.body)
        self._has_changed.set()
