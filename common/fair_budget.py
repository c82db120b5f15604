"""Shares a number of bytes among parties, so that none of them takes what the others need."""

from collections import Counter
from collections.abc import Hashable
from typing import Generic, TypeVar

SHARE = 3  # times what is free, at most, for one party

P = TypeVar("P", bound=Hashable)


class FairBudget(Generic[P]):
    """The bytes that all parties may hold together.

    Nobody takes more than `SHARE` times what stays free. So a single party leaves a quarter to others, two leave a
    seventh, and nobody has to be told how many there are. The rule is that of dynamic queue thresholds in switches
    (Choudhury and Hahne, 1998).
    """

    def __init__(self, total: int) -> None:
        """`total` is in bytes."""
        self.total = self.free = total
        self._held: Counter[P] = Counter()

    @property
    def largest(self) -> int:
        """Return the most that one party can hold, while no other holds anything."""
        return self.total * SHARE // (SHARE + 1)

    def held(self, party: P) -> int:
        """Return the bytes that a party holds."""
        return self._held[party]

    def room(self, party: P) -> int:
        """Return how many bytes a party may take now."""
        return max(0, (SHARE * self.free - self._held[party]) // (SHARE + 1))

    def take(self, party: P, size: int) -> None:
        """Give `size` bytes to a party, or take them back if negative. The caller asks for the room."""
        self.free -= size
        self._held[party] += size
        if not self._held[party]:
            del self._held[party]
