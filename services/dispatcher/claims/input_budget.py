"""Bounds the memory that the inputs of running jobs take in this dispatcher."""

import asyncio
import contextlib
from collections import Counter
from typing import NamedTuple, TypeAlias

from common.fair_budget import FairBudget
from common.jobs import Priority
from common.postgres.batcher import MAX_BATCH_BYTES
from services.dispatcher.settings import MAX_INPUTS

LOOK_SECONDS = 1.0  # between two claims of a queue whose next job has no room: by then another job may be next
LARGEST_PART = 4  # a usual claim loads at most this part of what a queue may hold
PASSING_PART = 128  # jobs that pass a larger one may hold this part of the total

Queue: TypeAlias = tuple[str, Priority]  # a model's name and a priority


class Room(NamedTuple):
    """Bytes that a claim may load, or that it has loaded."""

    in_turn: int
    passing: int  # of small jobs that pass a larger one, which does not fit yet


class InputBudget:
    """The bytes of all inputs that are loaded. Each queue has a share.

    A claim reserves what it may load before it knows the jobs. One job always fits if its queue holds nothing in turn,
    however large it is. Small jobs that pass it have a little room of their own, so neither waits for the other. The
    bytes exceed the total by one job and this little for each queue at most.
    """

    def __init__(self, total: int = MAX_INPUTS) -> None:
        """`total` is in bytes."""
        self._budget: FairBudget[tuple[Queue, bool]] = FairBudget(total)  # by queue, and whether a job passed another
        self._usual = max(1, min(MAX_BATCH_BYTES, self._budget.largest // LARGEST_PART))
        self._largest_passing = total // PASSING_PART
        self._next: dict[Queue, int] = {}  # the bytes of the next job of a queue, if it did not fit into the last claim
        self._passed: Counter[Queue] = Counter()  # jobs that passed another one and have ended
        self._changed = asyncio.Event()

    @property
    def used(self) -> int:
        return self._budget.total - self._budget.free

    def reserve(self, queue: Queue) -> Room:
        """Return what a claim may load now. Give back what it does not load."""
        room = Room(min(self._size(queue), self._room(queue)), self._passing_room(queue))
        self._take(queue, room)
        return room

    def release(self, queue: Queue, room: Room) -> None:
        """Give back what a claim did not load."""
        self._take(queue, Room(-room.in_turn, -room.passing))
        self._changed.set()

    def note_end(self, queue: Queue, room: Room) -> None:
        """Give back the inputs of a job that no longer runs."""
        self._passed[queue] += room.passing > 0
        self.release(queue, room)

    def note_next(self, queue: Queue, size: int | None) -> None:
        """Note the bytes of the job that did not fit into a claim, or None. The next claim reserves as much."""
        self._next.pop(queue, None)
        if size is not None:
            self._next[queue] = size

    async def wait(self, queue: Queue) -> None:
        """Wait until the next job fits, or a job that passed it has ended, but at most LOOK_SECONDS."""
        passed = self._passed[queue]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                while self._room(queue) < self._size(queue) and self._passed[queue] == passed:
                    self._changed.clear()
                    await self._changed.wait()

    def _take(self, queue: Queue, room: Room) -> None:
        self._budget.take((queue, False), room.in_turn)
        self._budget.take((queue, True), room.passing)

    def _size(self, queue: Queue) -> int:
        return max(self._usual, self._next.get(queue, 0))

    def _room(self, queue: Queue) -> int:
        party = queue, False
        return self._budget.room(party) if self._budget.held(party) else self._size(queue)

    def _passing_room(self, queue: Queue) -> int:
        return max(0, self._largest_passing - self._budget.held((queue, True)))
