"""Quarantines models whose process has stalled.

A Python model's process that does not answer for a second is reported as not healthy, and Triton fails its batch.
A process that was frozen and not dead (a paused container, a migrating virtual machine) still answers that batch later.
Triton takes this answer for the answer to the next batch. From then on, answers reach the wrong requests.
"""

import math
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

# Counts from the first answer that is rejected. A server in this state crashes much sooner.
QUARANTINE_SECONDS = 60.0
# A dead instance among several reports the same error again and again. Only an error after this pause is a new stall.
REPEAT_SECONDS = 60.0


@dataclass
class Stall:
    """The last stall of a model. `epoch` changes at each stall and at each reload."""

    epoch: int
    at: float
    until: float | None = None  # None before the first answer

    def is_open(self, now: float) -> bool:
        return self.until is None or now < self.until


class Quarantine:
    """Decides whether an answer of a model can be trusted. Times are in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._stalls: dict[str, Stall] = {}

    def epoch(self, model: str) -> int:
        """Return the epoch of a request that is sent now."""
        return self._stalls[model].epoch if model in self._stalls else 0

    def add(self, model: str) -> None:
        """Quarantine a model whose process Triton reported as not healthy."""
        now = self._clock()
        stall = self._stalls.get(model)
        if stall is None or now - stall.at > REPEAT_SECONDS:
            self._stalls[model] = Stall(self.epoch(model) + 1, now)
        else:
            stall.at = now

    def accepts(self, model: str, epoch: int) -> bool:
        """Return whether an answer to a request of this epoch can be trusted."""
        stall = self._stalls.get(model)
        if stall is None:
            return True
        if stall.until is None:
            stall.until = self._clock() + QUARANTINE_SECONDS
        return epoch == stall.epoch and not stall.is_open(self._clock())

    @property
    def is_active(self) -> bool:
        """Whether a model that stalled recently is in quarantine."""
        now = self._clock()
        return any(now - stall.at < REPEAT_SECONDS and stall.is_open(now) for stall in self._stalls.values())

    def release_reloaded(self, ready: Collection[str]) -> None:
        """End the quarantine of models that are not ready: Triton reloads them before they answer again."""
        now = self._clock()
        for model, stall in self._stalls.items():
            if model not in ready and stall.is_open(now):
                stall.epoch, stall.at, stall.until = stall.epoch + 1, -math.inf, now
