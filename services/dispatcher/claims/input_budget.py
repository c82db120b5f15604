"""Bounds the memory that the inputs of running jobs take in this dispatcher."""

import asyncio
import contextlib
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeAlias

from common.fair_budget import FairBudget
from common.job_states import Priority
from common.jobs.job import JobToRun
from common.postgres.batcher import MAX_BATCH_BYTES
from services.dispatcher.settings import MAX_INPUTS

LOOK_SECONDS = 1.0  # between two claims of a queue whose next job has no room: by then another job may be next
LARGEST_PART = 4  # a usual claim loads at most this part of what a queue may hold
# Jobs that pass a larger one may hold this part of the total. Else they would wait until others' large jobs have ended.
PASSING_PART = 128

# A model's name and a priority. What becomes known after a claim, such as the bytes of a URL, is a queue of its own.
Queue: TypeAlias = tuple[str, Priority] | tuple[str, Priority, Literal["fetched"]]


class Room(NamedTuple):
    """Bytes that a claim may load, or that it has loaded."""

    in_turn: int
    passing: int  # of small jobs that pass a larger one, which does not fit yet


class InputBudget:
    """The bytes of all inputs that are loaded. Each queue has a share.

    A claim reserves what it may load before it knows the jobs. One job always fits if its queue holds nothing in turn,
    however large it is, but only one job is larger than a queue's share at a time. Of such a job only the share is
    counted, so it leaves the other queues what any busy queue leaves them. Small jobs that pass a job without room have
    a little room of their own, so neither waits for the other. So the bytes exceed the total by one large job, and by a
    usual claim and this little for each queue.
    """

    def __init__(self, total: int = MAX_INPUTS) -> None:
        """`total` is in bytes."""
        self._budget: FairBudget[tuple[Queue, bool]] = FairBudget(total)  # by queue, and whether a job passed another
        self._usual = max(1, min(MAX_BATCH_BYTES, self._budget.largest // LARGEST_PART))
        self._largest_passing = total // PASSING_PART
        self._bytes: Counter[Queue] = Counter()  # that a queue holds in turn, also beyond its share
        self._next: dict[Queue, int] = {}  # the bytes of the next job of a queue, if it did not fit into the last claim
        self._passed: Counter[Queue] = Counter()  # jobs that passed another one and have ended
        self._turns: defaultdict[Queue, asyncio.Lock] = defaultdict(asyncio.Lock)  # of those that want exact bytes
        self._changed = asyncio.Event()

    @property
    def used(self) -> int:
        beyond = sum(max(0, size - self._budget.largest) for size in self._bytes.values())
        return self._budget.total - self._budget.free + beyond

    def reserve(self, queue: Queue) -> Room:
        """Return what a claim may load now. Give back what it does not load."""
        room = Room(self._room(queue, self._size(queue)), self._passing_room(queue))
        self._take(queue, room)
        return room

    def try_take(self, queue: Queue, size: int, *, is_next: bool = False) -> Room | None:
        """Take exactly `size` bytes, in turn unless they are few. None if they do not fit, or others wait for room.

        `is_next`: the caller holds the turn of the queue.
        """
        if size <= self._passing_room(queue):
            room = Room(0, size)
        elif (is_next or not self._turns[queue].locked()) and size <= self._room(queue, size):
            room = Room(size, 0)
        else:
            return None
        self._take(queue, room)
        return room

    def turn(self, queue: Queue) -> asyncio.Lock:
        """Return the lock of those that wait for exact bytes."""
        return self._turns[queue]

    async def wait_for(self, queue: Queue, size: int) -> None:
        """Wait until `size` bytes fit. The caller holds the turn of the queue."""
        while size > max(self._passing_room(queue), self._room(queue, size)):
            self._changed.clear()
            await self._changed.wait()

    def release(self, queue: Queue, room: Room) -> None:
        """Give back what a claim did not load, or what was taken."""
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
                while self._room(queue, size := self._size(queue)) < size and self._passed[queue] == passed:
                    self._changed.clear()
                    await self._changed.wait()

    def _take(self, queue: Queue, room: Room) -> None:
        before = self._bytes[queue]
        self._bytes[queue] += room.in_turn
        counted = min(self._bytes[queue], self._budget.largest) - min(before, self._budget.largest)
        self._budget.take((queue, False), counted)
        self._budget.take((queue, True), room.passing)

    def _size(self, queue: Queue) -> int:
        return max(self._usual, self._next.get(queue, 0))

    def _room(self, queue: Queue, size: int) -> int:
        """Return how many of `size` bytes a queue may take now."""
        largest = self._budget.largest
        is_alone = size <= largest or all(held <= largest for held in self._bytes.values())
        return size if is_alone and not self._bytes[queue] else min(size, self._budget.room((queue, False)))

    def _passing_room(self, queue: Queue) -> int:
        return max(0, self._largest_passing - self._budget.held((queue, True)))


def measure(jobs: Iterable[JobToRun]) -> Room:
    """Return the bytes of the inputs of claimed jobs."""
    sizes = {False: 0, True: 0}
    for job in jobs:
        sizes[job.passed] += job.input_bytes
    return Room(sizes[False], sizes[True])


def name_fetched(job: JobToRun) -> Queue:
    """Return the queue of what a job fetched after its claim."""
    return job.model, job.priority, "fetched"
