"""What breaks, and when: lanes of faults from a seed, one fault at a time in each lane. Pure."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from deploy.local.server import Server

Action = Literal["kill", "freeze", "restart", "crash"]  # a crash is none of our doing
ACTIONS: tuple[Action, ...] = ("kill", "freeze", "restart")
DOWN = (0.1, 4.0)  # seconds between a kill and the start
FROZEN = (1.0, 9.0)  # seconds; the lease is 5
LONG = (12.0, 22.0)  # seconds of one freeze in five: beyond the deadlines of statements, heartbeats and keepalives
GAP = (0.5, 4.0)  # seconds in which a lane's members all serve


@dataclass(frozen=True)
class Step:
    action: Action
    member: Server
    hold: float
    gap: float


class Lane:
    """Members of which one is broken at a time; `first` is how many faults come at least, a kill of each member."""

    def __init__(self, name: str, members: Sequence[Server], seed: int, pace: float) -> None:
        """`pace` stretches the time between faults, and kills."""
        self.members = members
        self.pace = pace
        self.first = len(members)
        self.chance = random.Random(f"{seed}/{name}")  # noqa: S311 - a test's

    def steps(self) -> Iterator[Step]:
        """Without end: a kill of each member, then rounds of everything, in random order."""
        yield from self.shuffle([("kill", member) for member in self.members])
        while True:
            yield from self.shuffle([(action, member) for action in ACTIONS for member in self.members])

    def shuffle(self, pairs: list[tuple[Action, Server]]) -> Iterator[Step]:
        self.chance.shuffle(pairs)
        for action, member in pairs:
            frozen = self.chance.uniform(*(LONG if self.chance.random() < 0.2 else FROZEN))
            down, gap = self.chance.uniform(*DOWN) * self.pace, self.chance.uniform(*GAP) * self.pace
            yield Step(action, member, frozen if action == "freeze" else down, gap)
