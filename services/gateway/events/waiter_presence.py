"""Announces to the dispatchers that this gateway has waiters, so that they publish changes of jobs."""

import math
import time
from collections.abc import Callable

from common.errors import BrokerUnavailable
from common.rabbitmq import messages, topology
from common.rabbitmq.messages import WAITERS_SECONDS, WaitersPresent
from common.rabbitmq.publisher import Publisher


class WaiterPresence:
    """Announces waiters to the dispatchers, and remembers when it last did."""

    def __init__(self, publisher: Publisher, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` counts seconds."""
        self._publisher = publisher
        self._clock = clock
        self._announced_at = -math.inf

    @property
    def is_fresh(self) -> bool:
        """Whether a recent announcement was sent. It may still have been lost."""
        return self._clock() - self._announced_at < WAITERS_SECONDS  # a new dispatcher publishes for longer without one

    async def announce(self) -> bool:
        """Announce waiters to all dispatchers. Return False if the broker is down."""
        began = self._clock()
        try:
            await self._publisher.publish_unconfirmed(topology.CONTROL_EXCHANGE, messages.encode(WaitersPresent()))
        except BrokerUnavailable:
            self._announced_at = -math.inf
            return False
        self._announced_at = began
        return True
