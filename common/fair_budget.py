"""Shares a number of bytes among parties, so that none of them takes what the others need."""

from collections import Counter
from collections.abc import Hashable
from typing import Generic, TypeVar

SHARE = 3  # times what stays free, at most, for one party

P = TypeVar("P", bound=Hashable)


class FairBudget(Generic[P]):
    """The bytes that all parties may hold together.

    Nobody takes more than `share` times what stays free. With a share of 3, a single party leaves a quarter to others,
    and two leave a seventh. Nobody has to be told how many there are. The rule is that of dynamic queue thresholds in
    switches (Choudhury and Hahne, 1998).
    """

    def __init__(self, total: int, share: int = SHARE) -> None:
        """`total` is in bytes."""
        self.total = self.free = total
        self._share = share
        self._held: Counter[P] = Counter()

    @property
    def largest(self) -> int:
        """Return the most that one party can hold, while no other holds anything."""
        return self.total * self._share // (self._share + 1)

    def held(self, party: P) -> int:
        """Return the bytes that a party holds."""
        return self._held[party]

    def room(self, party: P) -> int:
        """Return how many bytes a party may take now."""
        return max(0, (self._share * self.free - self._held[party]) // (self._share + 1))

    def take(self, party: P, size: int) -> None:
        """Give `size` bytes to a party, or take them back if negative. The caller asks for the room."""
        self.free -= size
        self._held[party] += size
        if not self._held[party]:
            del self._held[party]
