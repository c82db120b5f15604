"""Handles control messages, which every dispatcher receives."""

from common.errors import Reject
from common.rabbitmq.messages import CancelJob, Message, WaitersPresent
from services.dispatcher.heartbeat import Heartbeat
from services.dispatcher.waiter_presence import WaiterPresence


class ControlHandler:
    def __init__(self, heartbeat: Heartbeat, waiters: WaiterPresence) -> None:
        self._heartbeat = heartbeat
        self._waiters = waiters

    async def handle(self, message: Message, _traceparent: str | None) -> None:
        """Handle one message. Raises Reject for a message of another kind."""
        match message:
            case CancelJob():
                # The heartbeat reads which jobs to cancel. The message may be old, from before a retry of its job.
                self._heartbeat.request()
            case WaitersPresent():
                self._waiters.note_waiters()
            case _:
                raise Reject(f"a {type(message).__name__} is not a control message")
