"""Handles the messages that every gateway gets."""

from common.rabbitmq.messages import KeysRevoked, Message
from services.gateway.auth.authentication import KeyCache
from services.gateway.events.waiters import Waiters


async def handle_change(waiters: Waiters, keys: KeyCache, message: Message, traceparent: str | None) -> None:
    """Wake the waiters of changed jobs. When a key was revoked, clear the cache and end the key's waits."""
    if isinstance(message, KeysRevoked):
        keys.clear()
        await waiters.wake_revoked()
    else:
        await waiters.handle(message, traceparent)
