"""Follows each model from look to look: its phase, its loads, and how much it is used. Pure."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from services.dispatcher.residency.demand_store import Demand
from services.dispatcher.residency.loads import Loaded
from services.dispatcher.residency.state import Model, Phase
from services.dispatcher.residency.store import Found, Residency
from services.dispatcher.triton.model_control import ModelState, State

SMOOTHING_SECONDS = 600.0  # of arrivals
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 300.0  # seconds after a load that failed; it doubles with each
GROWTH = 1.5  # times as much memory is assumed after a load that lacked it
DESCRIBE_SECONDS = 30.0  # until a model may be unloaded that was loaded to learn what it declares
STEPS_SECONDS = 5.0  # the same, until any model may drain: that one may be an ensemble that needs it
STUCK_SECONDS = 60.0  # after which Triton may never end an unload: jobs have 30 s before it
RELOAD_SECONDS = 30.0  # for which a model keeps its room while it is unloaded and loaded again after a quarantine
TOLERANCE_SECONDS = 1.0  # by which an estimate may differ before it is saved
STOPPED = "Triton stopped while it loaded the model"


class Look(NamedTuple):
    """What is known at a moment of the database's clock."""

    now: float
    found: Sequence[Found]
    demand: Mapping[str, Demand]
    states: Mapping[str, ModelState]

    @property
    def steps(self) -> Mapping[str, Sequence[str]]:
        """The models of each ensemble."""
        return {each.row.name: each.steps for each in self.found if each.steps}


def move(row: Residency, phase: Phase, now: float) -> None:
    """Let a model enter a phase."""
    if phase is Phase.ABSENT and row.phase in (Phase.RESIDENT, Phase.DRAINING):
        row.left_at = now
    if phase is not row.phase:
        row.phase, row.changed_at = phase, now
    if phase is not Phase.DRAINING:
        row.for_model = None
    if phase in (Phase.ABSENT, Phase.LOADING):
        row.loaded_at = None


def note_loaded(row: Residency, now: float) -> None:
    """Record that a model is resident, whoever loaded it."""
    move(row, Phase.RESIDENT, now)
    row.loaded_at, row.failures, row.next_try_at, row.reason = now, 0, None, None


def note_failed(row: Residency, reason: str, now: float, seconds: float = 0.0) -> None:
    """Record that a load failed after so many seconds, and until when the next one waits.

    It waits at least as long as this one took: meanwhile other models are loaded.
    """
    move(row, Phase.ABSENT, now)
    row.failures += 1
    row.next_try_at = now + max(min(FIRST_PAUSE * 2 ** min(row.failures - 1, 30), LONGEST_PAUSE), seconds)
    row.reason = reason


def note_ended(row: Residency, loaded: Loaded, now: float, room: int) -> None:
    """Record a load of this dispatcher that has ended. `room` is what the model can have at most, in bytes."""
    if loaded.error is not None:
        note_failed(row, loaded.error, now, 0.0 if loaded.is_outage else loaded.seconds)
        if loaded.lacked_memory:
            row.assumed = max(1, min(round(GROWTH * (row.memory or room)), room))
        return
    note_loaded(row, now)
    known = row.load_seconds
    row.load_seconds = loaded.seconds if known is None else (known + loaded.seconds) / 2
    if loaded.growth is not None:
        row.measured, row.assumed = loaded.growth, None


def follow(row: Residency, seen: ModelState, now: float, *, is_own_load: bool, is_reload: bool = False) -> None:
    """Take over what Triton's index says.

    `is_own_load`: this dispatcher's call to load the model is not over. `is_reload`: a dispatcher unloads the model and
    loads it again after a quarantine. So nothing else gets its room meanwhile.
    """
    if seen.is_untouched:
        row.lost = 0
    if is_own_load:
        move(row, Phase.LOADING, now)
        return
    match seen.state:
        case State.READY:
            if row.phase in (Phase.ABSENT, Phase.LOADING):
                note_loaded(row, now)
        case State.LOADING:
            move(row, Phase.LOADING, now)
        case State.UNLOADING:
            move(row, Phase.DRAINING, now)
        case State.ABSENT:
            if is_reload and keeps_room(row, now):
                move(row, Phase.LOADING, now)
            elif row.phase is Phase.LOADING:  # its dispatcher died meanwhile
                note_failed(row, seen.reason or STOPPED, now)
            else:
                move(row, Phase.ABSENT, now)


def keeps_room(row: Residency, now: float) -> bool:
    """Return whether a model that is not loaded now may still come back by its reload. One that fails ends this."""
    if row.phase is Phase.LOADING:
        return now - row.changed_at < RELOAD_SECONDS
    return row.phase is not Phase.ABSENT


def size(row: Residency, declared: int | None, budget: int) -> None:
    """Decide for how many bytes a model counts. Say so if it can never be loaded."""
    known = declared or row.measured
    row.memory = max(known or 0, row.assumed or 0) or None
    if row.memory is not None and row.memory > budget:
        row.reason = (
            f"it takes {row.memory} bytes, and CHARONIA_MODEL_MEMORY is {budget}: raise it, or serve a smaller one"
        )
    elif not row.failures:
        row.reason = None


class Usage:
    """Measures arrivals of jobs: what Triton ran, and by how much more waits."""

    def __init__(self) -> None:
        self._at: float | None = None
        self._last: Mapping[str, tuple[int, int, int]] = {}

    def update(self, rows: Mapping[str, Residency], now: float, counts: Mapping[str, tuple[int, int, int]]) -> None:
        """Take over, by model, Triton's count of successes since the last load, and how many jobs wait and run."""
        seconds = 0.0 if self._at is None else now - self._at
        for name, row in rows.items():
            ran_in_all, waiting, running = counts[name]
            ran_before, waiting_before, _ = self._last.get(name, counts[name])
            ran = ran_in_all - ran_before if ran_in_all >= ran_before else ran_in_all
            if seconds > 0:
                weight = 1 - math.exp(-seconds / SMOOTHING_SECONDS)
                row.arrivals += weight * (max(0, ran + waiting - waiting_before) / seconds - row.arrivals)
            if waiting or running or ran or row.used_at is None:
                row.used_at = now
        self._at, self._last = now, dict(counts)


def describe(
    found: Found,
    row: Residency,
    demand: Demand,
    steps: Collection[str],
    unload_seconds: float = 0.0,
    *,
    is_frozen: bool,
) -> Model:
    """Return a model as the rule sees it. One that nobody has described waits since it was first seen.

    `unload_seconds`: what the unload of another model takes, for which a load waits.
    """
    return Model(
        name=row.name,
        phase=row.phase,
        memory=row.memory,
        load_seconds=None if row.load_seconds is None else row.load_seconds + unload_seconds,
        keep=row.keep,
        is_known=found.is_known,
        loaded_at=row.loaded_at,
        next_try_at=row.next_try_at,
        waiting=demand.waiting,
        since=demand.since if found.is_known else row.changed_at,
        left_at=row.left_at,
        deadline=demand.deadline,
        priority=demand.priority,
        running=demand.running,
        compute_seconds=found.compute_seconds,
        slots=found.slots,
        last_used=row.used_at or row.changed_at,
        arrivals=row.arrivals,
        elsewhere=found.elsewhere,
        is_frozen=is_frozen,
        steps=steps,
    )


def is_new(found: Found, row: Residency, now: float, seconds: float = DESCRIBE_SECONDS) -> bool:
    """Return whether a model was loaded just now, and no dispatcher has described it yet. Its load was for that."""
    return not found.is_known and row.loaded_at is not None and now - row.loaded_at < seconds


def is_coming(found: Found, row: Residency, now: float) -> bool:
    """Return whether a model is loaded, or was just now, that may be an ensemble. Then nobody knows what it needs."""
    return (row.phase is Phase.LOADING and not found.is_known) or is_new(found, row, now, STEPS_SECONDS)


def is_stuck(row: Residency, now: float) -> bool:
    """Return whether Triton does not end the unload of a model. Nobody gets that room then."""
    return row.phase is Phase.DRAINING and now - row.changed_at > STUCK_SECONDS


def may_write_off(row: Residency, seen: ModelState, demand: Demand, now: float) -> bool:
    """Return whether a model may be loaded beside its stuck unload. Triton keeps both then.

    It does not end the unload although it runs nothing: docs/explanation/residency.md.
    """
    return is_stuck(row, now) and seen.state is State.UNLOADING and not demand.running


def assume_memory(row: Residency, rows: Mapping[str, Residency], budget: int) -> int:
    """Return the bytes of a model. One that nobody has measured counts as the largest one, as in the rule."""
    known = (each.memory for each in rows.values() if each.memory is not None and each.memory <= budget)
    return row.memory or max(known, default=budget)


def write_off(row: Residency, memory: int, now: float) -> None:
    """Count the bytes that a stuck unload holds as lost until Triton is started again."""
    row.lost += memory
    move(row, Phase.ABSENT, now)


def is_near(before: float | None, now: float | None) -> bool:
    """Return whether an estimate has hardly changed."""
    if before is None or now is None:
        return before is now
    return abs(now - before) <= TOLERANCE_SECONDS


def differs(row: Residency, saved: Residency, *, in_detail: bool) -> bool:
    """Return whether a row needs to be saved. `in_detail`: also because of what changes all the time."""
    if in_detail:
        return row != saved
    return row != replace(saved, arrivals=row.arrivals, used_at=row.used_at)
