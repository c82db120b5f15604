"""What Tritons hold, if the queue decides that: docs/explanation/residency.md. Pure."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from services.gateway.models.store import Residency

STATES = ("resident", "loading")  # the best first; of the others, the one counts that is expected first
NEVER = datetime.max.replace(tzinfo=UTC)


class MemoryUse(NamedTuple):
    """The memory for models of all Tritons where it is managed, in bytes."""

    used: int  # by models that are not absent, as far as that is known, and by unloads that never ended
    budget: int


def choose_best(found: Iterable[Residency]) -> Mapping[str, Residency]:
    """Return each model as the Triton has it where a job can start first."""
    best: dict[str, Residency] = {}
    for each in found:
        if each.model not in best or rank(each) < rank(best[each.model]):
            best[each.model] = each
    return best


def rank(one: Residency) -> tuple[int, datetime, bool, str]:
    """Return what sorts the Tritons of a model, the best one first."""
    state = STATES.index(one.state) if one.state in STATES else len(STATES)
    return state, one.expected_at or NEVER, one.state == "absent", one.server


def add_up(found: Iterable[Residency]) -> MemoryUse | None:
    """Return the memory of all Tritons together. None: none is managed."""
    budgets: dict[str, int] = {}
    used = 0
    for each in found:
        budgets[each.server] = each.budget
        used += each.lost + ((each.memory or 0) if each.state != "absent" else 0)
    return MemoryUse(used, sum(budgets.values())) if budgets else None
