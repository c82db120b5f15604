"""Handles control messages, which every dispatcher receives: cancels, and that clients wait."""

import time
from collections.abc import Callable

from common.errors import UnknownMessage
from common.rabbitmq.messages import WAITERS_SECONDS, CancelJob, Message, WaitersPresent
from services.dispatcher.attempts.lease_renewer import LeaseRenewer

PRESENCE_SECONDS = 4 * WAITERS_SECONDS  # so some messages of a gateway may be lost
REPEAT_SECONDS = WAITERS_SECONDS + 5.0  # within this time every gateway with waiters has repeated its message


class WaiterPresence:
    """Remembers whether a client waits at any gateway. If none waits, the dispatcher publishes no changes of jobs."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns seconds."""
        self._clock = clock
        self._until = 0.0
        self.assume_waiters()

    def note_waiters(self) -> None:
        """Record a gateway's message that clients wait."""
        self._until = self._clock() + PRESENCE_SECONDS

    def assume_waiters(self) -> None:
        """Assume waiters for a while, because a message may have been missed."""
        self._until = max(self._until, self._clock() + REPEAT_SECONDS)

    def has_waiters(self) -> bool:
        return self._clock() < self._until


class ControlHandler:
    def __init__(self, leases: LeaseRenewer, waiters: WaiterPresence) -> None:
        self._leases = leases
        self._waiters = waiters

    async def handle(self, message: Message, _traceparent: str | None) -> None:
        """Handle one message. Raises UnknownMessage for one of another kind."""
        match message:
            case CancelJob():
                # The renewal reads which jobs to cancel. The message may be old, from before a retry of its job.
                self._leases.request()
            case WaitersPresent():
                self._waiters.note_waiters()
            case _:
                raise UnknownMessage(f"a {type(message).__name__} is not a control message")
