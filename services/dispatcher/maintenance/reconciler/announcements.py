"""Decides when jobs that still wait are announced again."""

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple
from uuid import UUID

from services.dispatcher.maintenance.reconciler.store import Queue, WaitingQueue

USED_PART = 8  # a wake-up in eight that starts one of the announced jobs is enough


class Announcement(NamedTuple):
    at: float
    jobs: frozenset[UUID]

    def is_used(self, waiting: Iterable[UUID]) -> bool:
        """Return whether enough of the jobs no longer wait."""
        return len(self.jobs.difference(waiting)) * USED_PART >= len(self.jobs)


class Announcements:
    """The last announcement of each queue.

    A dispatcher may leave jobs queued on purpose, such as those of a tenant that waits to fetch. Their wake-ups are
    used up at once. So a queue is announced again only after a while, or when enough of its announced jobs are gone.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns seconds."""
        self._seconds = seconds
        self._clock = clock
        self._last: dict[Queue, Announcement] = {}

    def is_due(self, queue: WaitingQueue) -> bool:
        last = self._last.get(queue.key)
        return last is None or self._is_over(last) or last.is_used(job.id for job in queue.jobs)

    def note(self, queue: WaitingQueue) -> None:
        """Record that these jobs are announced now."""
        self._last = {key: last for key, last in self._last.items() if not self._is_over(last)}
        self._last[queue.key] = Announcement(self._clock(), frozenset(job.id for job in queue.jobs))

    def clear(self) -> None:
        """Forget all, because the broker may have lost the messages."""
        self._last.clear()

    def _is_over(self, last: Announcement) -> bool:
        return self._clock() - last.at >= self._seconds
