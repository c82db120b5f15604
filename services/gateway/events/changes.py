"""Handles the messages that every gateway gets."""

from collections.abc import Callable

from common.rabbitmq.messages import KeysRevoked, Message
from services.gateway.auth.authentication import KeyCache
from services.gateway.events.waiters import Waiters


async def handle_change(
    waiters: Waiters, keys: KeyCache, look_at_feeds: Callable[[], None], message: Message, traceparent: str | None
) -> None:
    """Wake the waiters of changed jobs. When a key was revoked, clear the cache and end the key's waits.

    `look_at_feeds` says that there may be new events.
    """
    if isinstance(message, KeysRevoked):
        keys.clear()
        await waiters.wake_revoked()
    else:
        look_at_feeds()
        await waiters.handle(message, traceparent)
