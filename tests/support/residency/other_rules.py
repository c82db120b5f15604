"""What others do with more models than memory."""

from collections.abc import Sequence

from services.dispatcher.residency.rule import Action, Drain, Load, Model, Phase, State


def replace_least_recently_used(state: State) -> Sequence[Action]:
    """Load at once what the oldest job of an absent model needs, for models whose memory is known."""
    wanted = [model for model in state.models if model.phase is Phase.ABSENT and model.since is not None]
    if not wanted or any(model.phase in (Phase.LOADING, Phase.DRAINING) for model in state.models):
        return []
    first = min(wanted, key=_since)
    resident = [model for model in state.models if model.phase is Phase.RESIDENT]
    room = state.budget - sum(model.memory or 0 for model in resident)
    drains: list[Action] = []
    for victim in sorted(resident, key=lambda model: model.last_used):
        if room >= (first.memory or 0):
            break
        drains.append(Drain(victim.name, first.name))
        room += victim.memory or 0
    return drains or [Load(first.name)]


def _since(model: Model) -> float:
    assert model.since is not None
    return model.since
