"""Which faults the cluster's servers have, and when: one at a time, chosen by a random seed. Pure."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Action = Literal["kill", "freeze", "partition", "memory alarm", "switchover", "clock skew"]
Target = Literal["broker", "primary", "standby", "witness", "service", "services"]
# A fault of the primary or the standby is one of its machine, with the member of etcd there. One of "services" is that
# of a machine with one of each service.
FAULTS: tuple[tuple[Action, Target], ...] = (
    ("kill", "primary"),
    ("kill", "broker"),
    ("partition", "primary"),
    ("partition", "broker"),
    ("partition", "services"),
    ("freeze", "primary"),
    ("freeze", "broker"),
    ("switchover", "primary"),
    ("memory alarm", "broker"),
    ("kill", "standby"),
    ("partition", "standby"),
    ("freeze", "standby"),
    ("kill", "witness"),
    ("kill", "services"),
    ("freeze", "services"),
    ("clock skew", "service"),
)
FIRST = 5  # these come before all others
SECONDS: dict[Action, tuple[float, float]] = {
    "kill": (1.0, 9.0),  # until it is started again: before or after Patroni has chosen another primary
    "freeze": (3.0, 12.0),
    "partition": (4.0, 14.0),
    "memory alarm": (3.0, 8.0),
    "switchover": (0.0, 0.0),
    "clock skew": (5.0, 10.0),
}
GAP_SECONDS = (2.0, 4.0)  # every server is healthy meanwhile


@dataclass(frozen=True)
class ServerFault:
    """A fault for `duration` seconds. `number` chooses one of several targets, and `gap` is the time before it."""

    action: Action
    target: Target
    number: int
    duration: float
    gap: float

    @property
    def name(self) -> str:
        return f"{self.action} {self.target}"


def plan(seed: int) -> Iterator[ServerFault]:
    """Yield faults without end, in rounds. Each round has each kind of fault once."""
    rng = random.Random(f"{seed}/cluster")  # noqa: S311 - a test's
    while True:
        first, others = [*FAULTS[:FIRST]], [*FAULTS[FIRST:]]
        rng.shuffle(first)
        rng.shuffle(others)
        for action, target in (*first, *others):
            yield ServerFault(
                action, target, rng.randrange(6), rng.uniform(*SECONDS[action]), rng.uniform(*GAP_SECONDS)
            )
