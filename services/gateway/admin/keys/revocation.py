"""Makes every gateway forget a revoked key."""

import contextlib

from common.errors import BrokerUnavailable
from common.rabbitmq import messages, topology
from common.rabbitmq.messages import KeysRevoked
from common.rabbitmq.publisher import Publisher
from services.gateway.auth.authentication import KeyCache
from services.gateway.events.waiters import Waiters


class RevocationAnnouncer:
    def __init__(self, publisher: Publisher, keys: KeyCache, waiters: Waiters) -> None:
        self._publisher = publisher
        self._keys = keys
        self._waiters = waiters

    async def announce(self) -> None:
        """Forget all keys here, and say so to the other gateways. Without the broker they take some seconds."""
        self._keys.clear()
        with contextlib.suppress(BrokerUnavailable):
            await self._publisher.publish_unconfirmed(topology.CHANGES_EXCHANGE, messages.encode(KeysRevoked()))
        await self._waiters.wake_revoked()
