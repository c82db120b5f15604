"""Tells the gateways that a key was revoked."""

import aio_pika

from common.rabbitmq import messages, topology
from common.rabbitmq.connection import CALL_SECONDS, CONNECTION_ERRORS, connect
from common.rabbitmq.messages import KeysRevoked


async def announce_revocation(url: str | None) -> bool:
    """Make every gateway clear its cache of keys. Return False without a broker."""
    if url is None:
        return False
    try:
        async with await connect(url, "charonia-keys") as connection:
            channel = await connection.channel()
            gateways = await channel.get_exchange(topology.CHANGES_EXCHANGE, ensure=False)
            message = aio_pika.Message(messages.encode(KeysRevoked()), content_type="application/json")
            await gateways.publish(message, "", mandatory=False, timeout=CALL_SECONDS)
    except CONNECTION_ERRORS:
        return False
    return True
