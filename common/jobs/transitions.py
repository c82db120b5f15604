"""The one table of transitions. The verbs declare it, and the docs' diagram and a trigger in tests are made from it."""

from collections.abc import Mapping
from typing import NamedTuple

from common.job_states import Status
from common.jobs import (
    cancel,
    claim,
    end,
    erase,
    forget_counted,
    keep,
    promote,
    renew,
    requeue,
    retry,
    run,
    take_results,
    twins,
)
from common.jobs.moves import Moves

VERBS: Mapping[str, tuple[Moves, ...]] = {
    "claim": claim.MOVES,
    "renew": renew.MOVES,
    "requeue": requeue.MOVES,
    "promote": promote.MOVES,
    "cancel": cancel.MOVES,
    "end": end.MOVES,
    "retry": retry.MOVES,
    "erase": erase.MOVES,
    "forget_counted": forget_counted.MOVES,
    "keep": keep.MOVES,
    "run": run.MOVES,
    "take results": take_results.MOVES,
    "twins": twins.MOVES,
}
TRANSITIONS: Mapping[Status, frozenset[Status]] = {
    status: frozenset(
        move.after
        for moves in VERBS.values()
        for each in moves
        for move in each.allowed
        if move.before is status and move.after is not status
    )
    for status in Status
}


class Edge(NamedTuple):
    """A transition in the diagram."""

    before: Status
    after: Status
    label: str


def list_edges() -> list[Edge]:
    """Return the transitions with what causes each, in the order of the states."""
    found = [
        Edge(move.before, move.after, move.why or verb)
        for verb, moves in VERBS.items()
        for each in moves
        for move in each.allowed
        if move.before is not move.after
    ]
    order = list(Status)
    return sorted(found, key=lambda edge: (order.index(edge.before), order.index(edge.after)))
