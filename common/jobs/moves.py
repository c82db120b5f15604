"""How the statements of a verb declare which jobs they move where. Pure."""

from collections.abc import Collection
from typing import NamedTuple

from common.job_states import Status


class Move(NamedTuple):
    """A change of state that a statement may make. `why` is for people, where the name of the verb does not say it."""

    before: Status
    after: Status
    why: str = ""


class Moves(NamedTuple):
    """All moves of one statement. Those from a state to itself write other columns only."""

    statement: str
    allowed: Collection[Move]


def stay(*states: Status) -> list[Move]:
    """Return the moves of a statement that writes jobs in these states, and leaves them there."""
    return [Move(state, state) for state in states]
