"""Which models make room for another one. Pure."""

from collections.abc import Iterable, Sequence

from services.dispatcher.residency.state import Sized, State

SWAP_PAYS = 2.0
"""How many times the work that a swap costs must wait before it pays."""
LOADS_A_TURN = 15.0
"""For how many load times a model keeps its room while jobs come, unless another one is overdue."""


def arrivals(state: State, one: Sized) -> float:
    """Return how many jobs a second are expected: no more than one in the time that the model is idle."""
    rest = state.now - one.model.idle_since if one.model.is_idle else 0.0
    return min(one.model.arrivals, 1 / rest) if rest > 0 else one.model.arrivals


def share(state: State, one: Sized) -> float:
    """Return the part of the time that the model is expected to work, from 0 to 1."""
    return min(1.0, arrivals(state, one) * one.job_seconds)


def has_served(state: State, one: Sized) -> bool:
    """Return whether all jobs that waited when the model was loaded have started, or it had `max_wait` for them."""
    model = one.model
    if not model.waiting or model.loaded_at is None or state.now - model.loaded_at >= state.max_wait:
        return True
    return model.since is not None and model.since > model.loaded_at


def is_turn_over(state: State, one: Sized) -> bool:
    """Return whether the model was used long enough for its load, or has been idle for as long as a load takes."""
    model = one.model
    if not has_served(state, one):
        return False
    if model.loaded_at is None or state.now - model.loaded_at >= LOADS_A_TURN * one.load_seconds:
        return True
    return model.is_idle and state.now - model.idle_since >= one.load_seconds


def turn_left(state: State, one: Sized) -> float:
    """Return for how many seconds it may take until the model has served the jobs that waited for its load."""
    if has_served(state, one) or one.model.loaded_at is None:
        return 0.0
    return min(one.model.loaded_at + state.max_wait - state.now, one.backlog)


def cost(state: State, wanted: Sized, victim: Sized) -> float:
    """Return seconds of work that are lost or put off if `victim` is unloaded for `wanted` and loaded again later.

    An idle victim costs nothing if less than one job of it is expected during both loads. Otherwise a short job would
    wait for a model that has few, but long jobs.
    """
    loads = wanted.load_seconds + victim.load_seconds
    if victim.model.is_idle and arrivals(state, victim) * loads < 1.0:
        return 0.0
    return SWAP_PAYS * share(state, victim) * loads + victim.backlog


def pays(state: State, wanted: Sized, victims: Sequence[Sized]) -> bool:
    """Return whether the work that waits for `wanted` exceeds what the swap costs."""
    return wanted.backlog > sum(cost(state, wanted, victim) for victim in victims)


def sort_victims(state: State, candidates: Iterable[Sized], wanted: Sized | None = None) -> list[Sized]:
    """Return the candidates, those first that cost least for each byte if they go for `wanted`, or for none.

    Among equal ones, the work that they do and their load times decide, as in GreedyDual-Size-Frequency (Cherkasova,
    1998), then how long ago they were used.
    """

    def key(one: Sized) -> tuple[float, float, float, str]:
        memory = max(one.memory, 1)
        worth = share(state, one) * one.load_seconds
        return cost(state, wanted or one, one) / memory, worth / memory, one.model.last_used, one.name

    return sorted(candidates, key=key)


def choose_victims(state: State, candidates: Sequence[Sized], wanted: Sized, lacking: int) -> list[Sized] | None:
    """Return the candidates that free `lacking` bytes at the least cost. None: all of them are too small."""
    chosen: list[Sized] = []
    freed = 0
    for victim in sort_victims(state, candidates, wanted):
        if freed >= lacking:
            break
        chosen.append(victim)
        freed += victim.memory
    if freed < lacking:
        return None
    for victim in reversed(chosen[:]):  # a small one may be needless beside the last, larger one
        if freed - victim.memory >= lacking:
            chosen.remove(victim)
            freed -= victim.memory
    return chosen
