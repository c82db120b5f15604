"""The models that are to be loaded, in their order. Pure."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import NamedTuple

from common.job_states import Priority
from services.dispatcher.residency.state import Model, Phase, Sized, State

DEADLINE_SECONDS = 2.0
"""How long before a deadline a load should end: a look, and the jobs that run, put off its begin."""
RANKS = {priority: rank for rank, priority in enumerate(Priority)}


class Line(NamedTuple):
    """All models that are absent and wanted, each in one of these."""

    wanted: Sequence[Sized]
    """To be loaded, in this order."""
    begins: Mapping[str, float]
    """When the load of each of them must begin at the latest."""
    resting: Sequence[Sized]
    """A load of them failed, and it is too early for the next one."""
    too_large: Sequence[Sized]
    """They do not fit beside the models that stay."""
    reserved: int
    """Bytes for kept models that rest."""


def bound(state: State, one: Sized) -> float:
    """Return when the model should be resident for its oldest job. A kept model should be so at once.

    The wait for a slot before the model was unloaded does not count. Otherwise a model that made room for another one
    would be loaded before it, again and again.
    """
    model = one.model
    if model.keep:
        return -inf
    if model.waits_since is None or model.elsewhere:
        return inf
    latest = model.waits_since + state.max_wait
    if model.deadline is None or state.now + one.load_seconds > model.deadline:  # a load would be in vain
        return latest
    return min(latest, model.deadline - DEADLINE_SECONDS)


def latest_begins(state: State, wanted: Sequence[Sized]) -> dict[str, float]:
    """Return when the load of each model must begin at the latest, so that all that follow keep their bounds.

    Loads are one at a time. So a load begins before the one that must follow it.
    """
    begins: dict[str, float] = {}
    next_begin = inf
    for one in sorted(wanted, key=lambda one: (bound(state, one), one.name), reverse=True):
        next_begin = min(next_begin, bound(state, one)) - one.load_seconds
        begins[one.name] = next_begin
    return begins


def is_wanted(model: Model) -> bool:
    return model.phase is Phase.ABSENT and (model.waiting > 0 or model.keep or not model.is_known)


def line_up(state: State, models: Sequence[Sized]) -> Line:
    """Sort what is wanted: kept models, then overdue ones by their bounds, then by priority and waited time.

    A model that made room a moment ago comes after those with jobs.
    The waited time of a model is that of its oldest job times the number of its jobs: "R×W" of Aksoy and Franklin,
    Scheduling for Large-Scale On-Demand Data Broadcasting (1998). It favors neither rare models nor popular ones.
    Models that are to be learned come after those with jobs.
    """
    left = state.budget - sum(one.memory for one in models if one.model.holds_frozen and not one.model.keep)
    fitting = []
    for kept in sorted((m for m in models if m.model.keep), key=lambda m: (m.model.phase is Phase.ABSENT, m.name)):
        if kept.model.phase is not Phase.ABSENT or kept.memory <= left:
            fitting.append(kept)
            left -= kept.memory
    wanted, resting, too_large = [], [], []
    for one in models:
        if not is_wanted(one.model):
            continue
        if one not in fitting and (one.model.keep or one.memory + one.rest > left):
            too_large.append(one)
        elif one.model.next_try_at is not None and one.model.next_try_at > state.now:
            resting.append(one)
        else:
            wanted.append(one)
    begins = latest_begins(state, wanted)
    wanted.sort(key=lambda one: _order(state, one, begins[one.name]))
    return Line(wanted, begins, resting, too_large, sum(one.memory for one in resting if one.model.keep))


def _order(state: State, one: Sized, begin: float) -> tuple[bool, float, bool, bool, int, float, float, str]:
    model = one.model
    late = begin <= state.now
    rank = RANKS[model.priority] if model.priority is not None else len(RANKS)
    waited = 0.0 if model.waits_since is None else model.waiting * (state.now - model.waits_since)
    # What made room a moment ago does not take it back because of a job that came meanwhile.
    gave_way = model.left_at is not None and state.now - model.left_at < one.load_seconds
    return (not late, begin if late else 0.0, not model.waiting, gave_way, rank, -waited, begin, one.name)
