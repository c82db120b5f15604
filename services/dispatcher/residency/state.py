"""What the rule of residency knows: the memory, and the models with their jobs. Pure."""

from collections.abc import Collection, Sequence
from enum import StrEnum
from math import inf
from typing import NamedTuple

from common.job_states import Priority

UNKNOWN_LOAD_SECONDS = 5.0
"""What a load is expected to take while no load of any model is known."""
MIN_JOB_SECONDS = 0.001
"""What a job takes at least, so that the quickest ones count, too."""


class Phase(StrEnum):
    """Where a model is. It moves from `absent` over `loading`, `resident` and `draining` to `absent` again."""

    ABSENT = "absent"
    LOADING = "loading"
    RESIDENT = "resident"
    DRAINING = "draining"
    """Still in memory, but no job of it starts."""


class Model(NamedTuple):
    """A model of the repository. Times are seconds of the database's clock."""

    name: str
    phase: Phase
    memory: int | None = None
    """Bytes. None: neither declared nor measured yet."""
    load_seconds: float | None = None
    """What a load takes, with the unload that makes room. None: it was never loaded."""
    keep: bool = False
    """It is never unloaded, and loaded without jobs."""
    is_known: bool = True
    """Its inputs and outputs are known. One that is not is loaded once to learn them."""
    loaded_at: float | None = None
    """When its last load ended: the begin of its turn. None: unknown."""
    next_try_at: float | None = None
    """Until when it rests after a load that failed."""
    waiting: int = 0
    """Its jobs that could start if it were resident and had slots."""
    since: float | None = None
    """Since when the oldest of them waits. Of a model that is not known: when the repository first had it."""
    left_at: float | None = None
    """When it was last unloaded. None: unknown."""
    deadline: float | None = None
    """When the first of them expires."""
    priority: Priority | None = None
    """The highest of them."""
    running: int = 0
    compute_seconds: float | None = None
    """What one job takes on average. None: none has run."""
    slots: int = 1
    """How many jobs run at once."""
    last_used: float = -inf
    arrivals: float = 0.0
    """Jobs a second, smoothed."""
    elsewhere: int = 0
    """How many other Tritons hold it, or load it."""
    is_frozen: bool = False
    """It takes memory, and frees none: it is in quarantine, another's to unload, or Triton does not unload it."""
    steps: Collection[str] = ()
    """All models that Triton loads with it, if it is an ensemble."""

    @property
    def is_idle(self) -> bool:
        return not self.waiting and not self.running

    @property
    def waits_since(self) -> float | None:
        """Since when the oldest job waits for a load. Before the model was unloaded, it waited for a slot."""
        if self.since is None or self.left_at is None:
            return self.since
        return max(self.since, self.left_at)

    @property
    def idle_since(self) -> float:
        """When it had its last job or its load, if it is idle."""
        return self.last_used if self.loaded_at is None else max(self.last_used, self.loaded_at)

    @property
    def holds_frozen(self) -> bool:
        return self.is_frozen and self.phase is not Phase.ABSENT

    @property
    def is_movable(self) -> bool:
        return self.phase is Phase.RESIDENT and not self.keep and not self.is_frozen


class State(NamedTuple):
    """All that the rule knows of one Triton."""

    now: float
    budget: int
    """Bytes for models."""
    max_wait: float
    """Seconds that a job may wait for a swap."""
    idle: float | None
    """Seconds after which an idle model is unloaded. None: never."""
    models: Sequence[Model]


class Sized(NamedTuple):
    """A model whose memory and times are known or assumed."""

    model: Model
    memory: int
    load_seconds: float
    job_seconds: float
    """How long one job occupies the model, while all of its slots run."""
    rest: int = 0
    """Bytes of resident models that an absent ensemble needs, too."""

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def backlog(self) -> float:
        """Seconds of work that waits. Each other Triton that holds the model halves it."""
        return self.model.waiting * self.job_seconds * 0.5**self.model.elsewhere


def size_up(state: State) -> list[Sized]:
    """Return all models by their names, with assumptions for what is unknown.

    A load and a job take as long as those of the other models on average. Memory counts as that of the largest model
    known here, but at most as all the room that kept and frozen models leave: otherwise it could never be measured.
    """
    models = sorted(state.models, key=lambda model: model.name)
    fixed = sum(model.memory or 0 for model in models if model.keep or model.holds_frozen)
    fitting = [model.memory for model in models if model.memory is not None and model.memory <= state.budget]
    largest = max(fitting, default=state.budget)
    memory = max(min(largest, state.budget - fixed), 1)  # what takes none would fit while others are over the budget
    load_seconds = _average([model.load_seconds for model in models], UNKNOWN_LOAD_SECONDS)
    compute_seconds = _average([model.compute_seconds for model in models], MIN_JOB_SECONDS)
    sized = []
    for model in models:
        compute = compute_seconds if model.compute_seconds is None else model.compute_seconds
        sized.append(
            Sized(
                model,
                memory if model.memory is None else model.memory,
                load_seconds if model.load_seconds is None else model.load_seconds,
                max(compute, MIN_JOB_SECONDS) / max(model.slots, 1),
            )
        )
    return sized


def _average(values: Sequence[float | None], default: float) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else default
