"""Asks the dispatchers to ring, because somebody waits here."""

import math
import time
from collections.abc import Callable

from common import messages, topology
from common.broker import Publisher
from common.errors import BrokerUnavailable
from common.messages import Listening

SURE_SECONDS = 15.0  # less than a dispatcher rings that was not there to hear it


class Attention:
    def __init__(self, publisher: Publisher, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` in seconds."""
        self.publisher = publisher
        self.clock = clock
        self.asked = -math.inf

    @property
    def is_sure(self) -> bool:
        """Whether the dispatchers ring, as far as one can tell: what was asked may be lost."""
        return self.clock() - self.asked < SURE_SECONDS

    async def ask(self) -> bool:
        """Whether the broker was there to be told."""
        began = self.clock()
        try:
            await self.publisher.tell(topology.CONTROL, messages.encode(Listening()))
        except BrokerUnavailable:
            self.asked = -math.inf
            return False
        self.asked = began
        return True
