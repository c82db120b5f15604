"""Which models' answers can be believed.

Triton calls a Python model's process not healthy when it answers nothing for a second, and fails the batch. Where that
process was frozen and not dead (a paused container, a virtual machine that moves), it answers that batch all the same
when it goes on, and Triton takes this for the answer to the next batch, until it crashes of it (by experiment).
"""

import time
from collections.abc import Callable, Collection

LONGEST = 300.0  # seconds; such a server crashes much sooner, and nobody sees a model that is loaded anew in its place


class Trust:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.lost: dict[str, float] = {}

    def lose(self, model: str) -> None:
        """Its process was called not healthy."""
        self.lost[model] = self.clock()

    def has(self, model: str) -> bool:
        """Whether what it answers is for the request that was asked."""
        return self.clock() - self.lost.get(model, float("-inf")) > LONGEST

    def keep(self, ready: Collection[str]) -> None:
        """Models that are not ready now will be loaded anew before they answer again."""
        self.lost = {model: at for model, at in self.lost.items() if model in ready and not self.has(model)}
