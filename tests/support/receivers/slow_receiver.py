"""A webhook receiver that answers only when the test lets it."""

import threading

from tests.support.receivers.threaded_server import ReceivedRequest, Reply
from tests.support.receivers.webhook_receiver import Inbox


class SlowInbox(Inbox):
    """Holds every request until it is released, and counts the requests that wait."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._lock = threading.Lock()
        self.released = threading.Event()
        self.waiting = 0
        self.most_waiting = 0

    def receive(self, request: ReceivedRequest) -> int | Reply:
        with self._lock:
            self.waiting += 1
            self.most_waiting = max(self.most_waiting, self.waiting)
        self.released.wait(timeout=60)
        with self._lock:
            self.waiting -= 1
        return super().receive(request)
