"""A receiver that takes its time."""

import threading

from tests.acceptance.listening import Received, Reply
from tests.acceptance.receiver import Inbox


class Slow(Inbox):
    """Answers nobody before it is released, and counts who waits."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.lock = threading.Lock()
        self.released = threading.Event()
        self.waiting = 0
        self.most = 0

    def take(self, request: Received) -> int | Reply:
        with self.lock:
            self.waiting += 1
            self.most = max(self.most, self.waiting)
        self.released.wait(timeout=10)
        with self.lock:
            self.waiting -= 1
        return super().take(request)
