"""Puts what ends in any order back into the order of its items. Pure."""

from collections.abc import Iterator
from typing import Generic, TypeVar

WINDOW = 4  # times the concurrency: how far a run may be ahead of its oldest item without a result

T = TypeVar("T")


class Ordering(Generic[T]):
    """Holds back what ends before the items ahead of it. `next` is the index that comes next."""

    def __init__(self, start: int = 0) -> None:
        self.next = start
        self._held: dict[int, T] = {}

    def add(self, index: int, found: T) -> Iterator[T]:
        """Yield what can go on now: nothing, or this one with those that waited for it."""
        self._held[index] = found
        while self.next in self._held:
            yield self._held.pop(self.next)
            self.next += 1
