"""Builds states of a Triton at the time `NOW`, with room for three models of 100 bytes."""

from services.dispatcher.residency.rule import Model, Phase, State

NOW = 10_000.0
MAX_WAIT = 300.0


def state(*models: Model, budget: int = 300, idle: float | None = None) -> State:
    return State(NOW, budget, MAX_WAIT, idle, models)


def absent(name: str, waiting: int = 1, waited: float = 1.0) -> Model:
    since = NOW - waited if waiting else None
    return Model(name, Phase.ABSENT, memory=100, load_seconds=2.0, waiting=waiting, since=since, compute_seconds=0.1)


def overdue(name: str, by: float = 1.0) -> Model:
    return absent(name, waited=MAX_WAIT + by)


def resident(name: str, loaded: float = 200.0, waiting: int = 0, waited: float = 0.0, arrivals: float = 0.0) -> Model:
    """Return a model that was loaded `loaded` seconds ago and has been idle since, if no jobs wait."""
    return Model(
        name,
        Phase.RESIDENT,
        memory=100,
        load_seconds=2.0,
        loaded_at=NOW - loaded,
        waiting=waiting,
        since=NOW - waited if waiting else None,
        compute_seconds=0.1,
        last_used=NOW if waiting else NOW - loaded,
        arrivals=arrivals,
    )
