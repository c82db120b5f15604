"""Which models' answers can be believed.

Triton calls a Python model's process not healthy when it answers nothing for a second, and fails the batch. Where that
process was frozen and not dead (a paused container, a virtual machine that moves), it answers that batch all the same
when it goes on, and Triton takes this for the answer to the next batch, until it crashes of it (by experiment).
"""

import math
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

DOUBTED_SECONDS = 60.0  # from the first answer on that is not believed; such a server crashes much sooner
QUIET_SECONDS = 60.0  # without such an error, until another is news: a dead instance of several tells it all the time


@dataclass
class Loss:
    """`epoch` changes with each loss and each return: what was asked in another one is not believed."""

    epoch: int
    at: float
    until: float | None = None  # None before the first answer

    def is_open(self, now: float) -> bool:
        return self.until is None or now < self.until


class Trust:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.losses: dict[str, Loss] = {}

    def begin(self, model: str) -> int:
        """The epoch in which a request is sent."""
        return self.losses[model].epoch if model in self.losses else 0

    def lose(self, model: str) -> None:
        """Its process was called not healthy."""
        now = self.clock()
        loss = self.losses.get(model)
        if loss is None or now - loss.at > QUIET_SECONDS:
            self.losses[model] = Loss(self.begin(model) + 1, now)
        else:
            loss.at = now

    def has(self, model: str, epoch: int) -> bool:
        """Whether an answer to a request of that epoch is taken for one to that request."""
        loss = self.losses.get(model)
        if loss is None:
            return True
        if loss.until is None:
            loss.until = self.clock() + DOUBTED_SECONDS
        return epoch == loss.epoch and not loss.is_open(self.clock())

    @property
    def is_lost(self) -> bool:
        """Whether a model is not believed that fell silent lately."""
        now = self.clock()
        return any(now - loss.at < QUIET_SECONDS and loss.is_open(now) for loss in self.losses.values())

    def keep(self, ready: Collection[str]) -> None:
        """Models that are not ready now will be loaded anew before they answer what is asked from now on."""
        now = self.clock()
        for model, loss in self.losses.items():
            if model not in ready and loss.is_open(now):
                loss.epoch, loss.at, loss.until = loss.epoch + 1, -math.inf, now
