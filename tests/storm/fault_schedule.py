"""Which faults happen, and when. Each schedule has one fault at a time, chosen by a random seed. Pure."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from deploy.local.servers.server import Server
from deploy.local.servers.triton import Triton

# A crash is not injected. Triton has two more: one of its models' processes dies, and it hangs for a minute.
Action = Literal["kill", "freeze", "restart", "crash", "kill model", "hang"]
ACTIONS: tuple[Action, ...] = ("kill", "freeze", "restart")
DOWN_SECONDS = (0.1, 4.0)  # from a kill to the start
FREEZE_SECONDS = (1.0, 9.0)  # the lease is 5
LONG_FREEZE_SECONDS = (12.0, 22.0)  # one freeze in five: beyond the deadlines of statements, heartbeats and keepalives
HANG_SECONDS = 60.0  # beyond every deadline of a job
GAP_SECONDS = (0.5, 4.0)  # all members of a schedule are healthy meanwhile


@dataclass(frozen=True)
class PlannedFault:
    action: Action
    member: Server
    duration: float
    gap: float


class FaultSchedule:
    """The faults of members that fail one at a time.

    `minimum` is the number of faults that always happen: at first a kill of each member.
    """

    def __init__(self, name: str, members: Sequence[Server], seed: int, pace: float) -> None:
        """`pace` multiplies the time between faults, and the time that killed members stay down."""
        self._members = members
        self._pace = pace
        self.minimum = len(members)
        self._rng = random.Random(f"{seed}/{name}")  # noqa: S311 - a test's

    def plan(self) -> Iterator[PlannedFault]:
        """Yield faults without end: a kill of each member, then rounds of all faults in random order."""
        yield from self._shuffle([("kill", member) for member in self._members])
        while True:
            faults: list[tuple[Action, Server]] = [(action, each) for action in ACTIONS for each in self._members]
            more: tuple[Action, ...] = ("kill model", "kill model", "hang")
            faults += [(action, member) for member in self._members if isinstance(member, Triton) for action in more]
            yield from self._shuffle(faults)

    def _shuffle(self, pairs: list[tuple[Action, Server]]) -> Iterator[PlannedFault]:
        self._rng.shuffle(pairs)
        for action, member in pairs:
            freeze = self._rng.uniform(*(LONG_FREEZE_SECONDS if self._rng.random() < 0.2 else FREEZE_SECONDS))
            down, gap = self._rng.uniform(*DOWN_SECONDS) * self._pace, self._rng.uniform(*GAP_SECONDS) * self._pace
            durations: dict[Action, float] = {"freeze": freeze, "hang": HANG_SECONDS}
            yield PlannedFault(action, member, durations.get(action, down), gap)
