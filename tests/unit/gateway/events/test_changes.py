"""What the gateway does with the messages that every gateway gets."""

from functools import partial

from common.rabbitmq.messages import JobsChanged, KeysRevoked, Message
from services.gateway.auth.authentication import KeyCache
from services.gateway.events.changes import handle_change
from services.gateway.events.waiters import Waiters
from tests.unit.gateway.events.fakes import JOB


class RecordedWaiters(Waiters):
    """Note what is asked of them."""

    def __init__(self, calls: list[object]) -> None:
        self._calls = calls

    async def handle(self, message: Message, _traceparent: str | None) -> None:
        self._calls.append(message)

    async def wake_revoked(self) -> None:
        self._calls.append("wake revoked")


class RecordedKeys(KeyCache):
    """Notes what is asked of it."""

    def __init__(self, calls: list[object]) -> None:
        self._calls = calls

    def clear(self) -> None:
        self._calls.append("clear")


async def test_a_revocation_clears_the_keys_and_wakes_their_waiters() -> None:
    calls: list[object] = []
    waiters, keys, look = RecordedWaiters(calls), RecordedKeys(calls), partial(calls.append, "look at feeds")
    for message in (JobsChanged([JOB]), KeysRevoked()):
        await handle_change(waiters, keys, look, message, None)
    assert calls == ["look at feeds", JobsChanged([JOB]), "clear", "wake revoked"]
