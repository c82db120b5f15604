"""The rule by which models are loaded and unloaded: `plan`. Pure.

docs/explanation/residency.md has it with its reasons.
"""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import NamedTuple

from services.dispatcher.residency.ensembles import count_steps
from services.dispatcher.residency.line import Line, line_up
from services.dispatcher.residency.state import Model, Phase, Sized, State, size_up
from services.dispatcher.residency.victims import (
    choose_victims,
    has_served,
    is_turn_over,
    pays,
    sort_victims,
    turn_left,
)

__all__ = ["Action", "Drain", "Load", "Model", "Phase", "Place", "Plan", "State", "plan"]

TOO_LARGE = "It needs more memory than the budget has beside what stays: kept models, and unloads that never ended."
LOAD_PAYS = 2.0
"""How many load times of work must wait for a model that another Triton holds."""


class Load(NamedTuple):
    """Load this model. There is room for it, and no other load."""

    name: str


class Drain(NamedTuple):
    """Start no more jobs of this model, and unload it when none runs."""

    name: str
    for_model: str | None
    """The model that gets its room. None: it was idle for too long, or the memory is over its budget."""


Action = Load | Drain


class Place(NamedTuple):
    """What a wanted model waits for."""

    number: int
    """From 1, in the order of the loads."""
    expected_in: float | None
    """Seconds until it is resident, an estimate. None: unknown."""
    why: str


class Plan(NamedTuple):
    actions: Sequence[Action]
    """At most one load."""
    places: Mapping[str, Place]
    """By the names of the models that are wanted and not resident."""


def plan(state: State) -> Plan:
    """Return what to do now, and what each wanted model waits for. The same state has the same plan."""
    models = count_steps(size_up(state))
    line = line_up(state, models)
    leaving = _choose_leaving(state, models)
    planner = _Planner(state, models, line, leaving)
    for wanted in line.wanted:
        planner.place(wanted)
    planner.place_others(models, line)
    return Plan([*(Drain(one.name, None) for one in leaving), *planner.actions], planner.places)


def _choose_leaving(state: State, models: Sequence[Sized]) -> list[Sized]:
    """Return the models that go without another one in their place."""
    movable = [one for one in models if one.model.is_movable]
    leaving: list[Sized] = []
    if state.idle is not None:
        leaving = [one for one in movable if one.model.is_idle and state.now - one.model.idle_since >= state.idle]
    held = sum(one.memory for one in models if one.model.phase in (Phase.LOADING, Phase.RESIDENT))
    over = held - sum(one.memory for one in leaving) - state.budget
    for one in sort_victims(state, [one for one in movable if one not in leaving]):
        if over <= 0:
            break
        leaving.append(one)
        over -= one.memory
    return leaving


class _Planner:
    """Goes along the line. What an earlier model gets or waits for is taken from what later ones may have."""

    def __init__(self, state: State, models: Sequence[Sized], line: Line, leaving: Sequence[Sized]) -> None:
        self.actions: list[Action] = []
        self.places: dict[str, Place] = {}
        self._state = state
        self._begins = line.begins
        held = sum(one.memory for one in models if one.model.phase is not Phase.ABSENT)
        self._room = state.budget - held - line.reserved
        draining = [one for one in models if one.model.phase is Phase.DRAINING and not one.model.is_frozen]
        self._coming = sum(one.memory for one in [*leaving, *draining])
        self._movable = [one for one in models if one.model.is_movable and one not in leaving]
        self._loading = [one for one in models if one.model.phase is Phase.LOADING]
        self._may_load = not self._loading
        self._may_drain = not self._loading
        self._blocked_by: str | None = None
        self._elapsed = 0.0
        for one in self._loading:
            self._elapsed += one.load_seconds
            self._note(one, self._elapsed, "It is being loaded.")

    def place(self, wanted: Sized) -> None:
        """Give the next model of the line its room, or say what it waits for."""
        if self._blocked_by is not None:
            self._note(wanted, None, f"It comes after {self._blocked_by}, which waits for room.")
        elif wanted.model.elsewhere and not wanted.model.keep and wanted.backlog <= LOAD_PAYS * wanted.load_seconds:
            self._note(wanted, None, "Another Triton has it, and its jobs are too few for a second one.")
        elif wanted.memory <= self._room:
            self._load(wanted)
        elif wanted.memory <= self._room + self._coming:
            self._wait_for_drain(wanted)
        else:
            self._make_room(wanted)

    def place_others(self, models: Sequence[Sized], line: Line) -> None:
        """Say why the other models are not in the line."""
        for one in models:
            if one.model.phase is Phase.DRAINING and one.model.waiting:
                self._note(one, None, "It makes room for another model, and is loaded again afterwards.")
        for one in line.resting:
            assert one.model.next_try_at is not None
            rest = one.model.next_try_at - self._state.now
            self._note(one, rest + one.load_seconds, "Its last load failed. It is tried again later.")
        for one in line.too_large:
            self._note(one, None, TOO_LARGE)

    def _load(self, wanted: Sized) -> None:
        self._room -= wanted.memory
        self._elapsed += wanted.load_seconds
        why = "It waits for the loads before it." if not self._may_load else "It is being loaded."
        self._note(wanted, self._elapsed, why)
        if self._may_load:
            self.actions.append(Load(wanted.name))
        self._may_load = self._may_drain = False

    def _wait_for_drain(self, wanted: Sized) -> None:
        self._coming -= wanted.memory - self._room
        self._room = 0
        self._elapsed += wanted.load_seconds
        self._note(wanted, self._elapsed, "It waits until another model has ended its jobs and is unloaded.")
        self._may_drain = False

    def _make_room(self, wanted: Sized) -> None:
        state, lacking = self._state, wanted.memory - self._room - self._coming
        overdue = self._begins[wanted.name] <= state.now
        victims = choose_victims(state, self._may_go(wanted, overdue), wanted, lacking)
        if victims is not None and (overdue or not wanted.model.waiting or pays(state, wanted, victims)):
            self._drain(wanted, victims)
        elif overdue:
            self._blocked_by = wanted.name
            victims = choose_victims(state, self._movable, wanted, lacking) or []
            self._elapsed += max((turn_left(state, one) for one in victims), default=0.0) + wanted.load_seconds
            self._note(wanted, self._elapsed, "Others keep their room until the jobs that waited for them have begun.")
        else:
            latest = max(self._begins[wanted.name] - state.now, self._elapsed) + wanted.load_seconds
            why = "Its jobs are not worth a swap yet. It gets room when they are, or before they have waited too long."
            self._note(wanted, latest if isfinite(latest) else None, why)

    def _may_go(self, wanted: Sized, overdue: bool) -> list[Sized]:
        others = [one for one in self._movable if one.name not in wanted.model.steps]
        if overdue:
            return [one for one in others if has_served(self._state, one)]
        over = [one for one in others if is_turn_over(self._state, one)]
        return over if wanted.model.waiting else [one for one in over if one.model.is_idle]

    def _drain(self, wanted: Sized, victims: Sequence[Sized]) -> None:
        if self._may_drain:
            self.actions += [Drain(one.name, wanted.name) for one in victims]
        self._movable = [one for one in self._movable if one not in victims]
        self._coming += sum(one.memory for one in victims)
        self._wait_for_drain(wanted)

    def _note(self, one: Sized, expected_in: float | None, why: str) -> None:
        self.places[one.name] = Place(len(self.places) + 1, expected_in, why)
