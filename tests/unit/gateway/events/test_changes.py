"""What the gateway does with the messages that every gateway gets."""

from functools import partial
from typing import cast

from common.rabbitmq.messages import JobsChanged, KeysRevoked, Message
from services.gateway.auth.authentication import KeyCache
from services.gateway.events.changes import handle_change
from services.gateway.events.waiters import Waiters
from tests.unit.gateway.events.fakes import JOB


class World:
    """Waiters and a cache of keys that note what is asked of them."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    async def handle(self, message: Message, _traceparent: str | None) -> None:
        self.calls.append(message)

    async def wake_revoked(self) -> None:
        self.calls.append("wake revoked")

    def clear(self) -> None:
        self.calls.append("clear")


async def test_a_revocation_clears_the_keys_and_wakes_their_waiters() -> None:
    world = World()
    for message in (JobsChanged([JOB]), KeysRevoked()):
        keys, look = cast("KeyCache", world), partial(world.calls.append, "look at feeds")
        await handle_change(cast("Waiters", world), keys, look, message, None)
    assert world.calls == ["look at feeds", JobsChanged([JOB]), "clear", "wake revoked"]
