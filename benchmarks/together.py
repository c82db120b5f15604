"""Several benchmarks on one stack, one after the other in each round, and some in the first only."""

from collections import ChainMap
from collections.abc import Sequence

from benchmarks.place import Bench
from benchmarks.speed import Figures


class Together:
    def __init__(self, parts: Sequence[Bench], once: Sequence[Bench]) -> None:
        self._parts, self._once = parts, once
        parts = (*parts, *once)
        self.titles = ChainMap(*(dict(part.titles) for part in parts))
        self.groups = ChainMap(*(dict(part.groups) for part in parts))
        self.heads = tuple(name for part in parts for name in part.heads)

    def warm_up(self) -> None:
        """Open connections, fill caches and plans."""
        for part in (*self._parts, *self._once):
            part.warm_up()

    def run(self) -> Figures:
        """Measure everything once."""
        parts, self._once = (*self._parts, *self._once), ()
        return {name: value for part in parts for name, value in part.run().items()}
