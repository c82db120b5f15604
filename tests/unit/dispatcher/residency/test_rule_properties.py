"""What holds for each plan, whatever the state."""

from hypothesis import given
from hypothesis import strategies as st

from common.job_states import Priority
from services.dispatcher.residency.line import line_up
from services.dispatcher.residency.rule import Drain, Load, Model, Phase, Plan, State, plan
from services.dispatcher.residency.state import Sized, size_up
from services.dispatcher.residency.victims import has_served, is_turn_over, pays

NOW, MAX_WAIT = 1000.0, 100.0
IN_MEMORY = (Phase.LOADING, Phase.RESIDENT, Phase.DRAINING)
TIMES = st.sampled_from([NOW - 200, NOW - 100, NOW - 50, NOW - 20, NOW - 1])


@st.composite
def states(draw: st.DrawFn) -> State:
    models = [draw_model(draw, f"m{number}") for number in range(draw(st.integers(1, 8)))]
    idle = draw(st.sampled_from([None, 10.0, 150.0]))
    return State(NOW, draw(st.integers(50, 400)), MAX_WAIT, idle, models)


def draw_model(draw: st.DrawFn, name: str) -> Model:
    waiting = draw(st.sampled_from([0, 0, 1, 30, 1000]))
    phase = draw(st.sampled_from([Phase.ABSENT, Phase.ABSENT, Phase.RESIDENT, Phase.RESIDENT, Phase.DRAINING]))
    return Model(
        name,
        draw(st.sampled_from([phase, phase, phase, Phase.LOADING])),
        memory=draw(st.none() | st.integers(1, 500)),
        load_seconds=draw(st.none() | st.sampled_from([0.5, 5.0, 30.0])),
        keep=draw(st.integers(0, 9)) == 0,
        is_known=draw(st.integers(0, 9)) > 0,
        loaded_at=None if phase is Phase.ABSENT else draw(st.none() | TIMES),
        next_try_at=draw(st.sampled_from([None, None, NOW - 1, NOW + 1])),
        waiting=waiting,
        since=draw(TIMES) if waiting else None,
        left_at=draw(st.none() | TIMES),
        deadline=draw(st.sampled_from([None, NOW + 3, NOW + 90])) if waiting else None,
        priority=draw(st.sampled_from(Priority)) if waiting else None,
        running=draw(st.integers(0, 2)) if phase in (Phase.RESIDENT, Phase.DRAINING) else 0,
        compute_seconds=draw(st.none() | st.sampled_from([0.01, 1.0])),
        slots=draw(st.integers(1, 4)),
        last_used=draw(TIMES),
        arrivals=draw(st.sampled_from([0.0, 0.01, 5.0])),
        elsewhere=draw(st.sampled_from([0, 0, 0, 1])),
        is_frozen=draw(st.integers(0, 9)) == 0,
    )


def apply(state: State, plan: Plan) -> State:
    """Return the state after the dispatchers heard of the plan."""
    phases = {action.name: Phase.LOADING if isinstance(action, Load) else Phase.DRAINING for action in plan.actions}
    models = [model._replace(phase=phases.get(model.name, model.phase)) for model in state.models]
    return state._replace(models=models)


def held(sized: dict[str, Sized], state: State, *phases: Phase) -> int:
    return sum(sized[model.name].memory for model in state.models if model.phase in phases)


def by_name(state: State) -> dict[str, Sized]:
    return {one.name: one for one in size_up(state)}


@given(states())
def test_a_load_never_exceeds_the_budget(state: State) -> None:
    planned = plan(state)
    if any(isinstance(action, Load) for action in planned.actions):
        assert held(by_name(state), apply(state, planned), *IN_MEMORY) <= state.budget


@given(states())
def test_what_exceeds_the_budget_is_drained_if_it_may_be(state: State) -> None:
    after = apply(state, plan(state))
    if held(by_name(state), after, Phase.LOADING, Phase.RESIDENT) > state.budget:
        assert not any(model.is_movable for model in after.models)


@given(states())
def test_a_plan_loads_one_absent_model_and_drains_movable_ones(state: State) -> None:
    models = {model.name: model for model in state.models}
    actions = plan(state).actions
    loads = [action for action in actions if isinstance(action, Load)]
    assert len({action.name for action in actions}) == len(actions)
    assert len(loads) <= (0 if any(model.phase is Phase.LOADING for model in state.models) else 1)
    assert all(models[load.name].phase is Phase.ABSENT for load in loads)
    assert all(models[action.name].is_movable for action in actions if isinstance(action, Drain))


@given(states())
def test_each_swap_has_a_reason(state: State) -> None:
    sized, begins = by_name(state), line_up(state, size_up(state)).begins
    swaps = [action for action in plan(state).actions if isinstance(action, Drain) and action.for_model is not None]
    if not swaps:
        return
    assert len({swap.for_model for swap in swaps}) == 1
    wanted, victims = sized[swaps[0].for_model or ""], [sized[swap.name] for swap in swaps]
    overdue = begins[wanted.name] <= state.now and all(has_served(state, victim) for victim in victims)
    turns_over = all(is_turn_over(state, victim) for victim in victims)
    to_learn = not wanted.model.waiting and all(victim.model.is_idle for victim in victims)
    assert overdue or (turns_over and (pays(state, wanted, victims) or to_learn))


@given(states())
def test_the_first_overdue_model_waits_only_for_loads_drains_and_jobs_that_came_before_a_load(state: State) -> None:
    sized, planned = by_name(state), plan(state)
    line = line_up(state, [*sized.values()])
    after = apply(state, planned)
    if not line.wanted or line.begins[line.wanted[0].name] > state.now:
        return
    first = line.wanted[0]
    if any(model.phase is Phase.LOADING for model in after.models):
        assert Load(first.name) in planned.actions or any(model.phase is Phase.LOADING for model in state.models)
        return
    stays = [
        one
        for one in sized.values()
        if one.model.phase is Phase.RESIDENT and (not one.model.is_movable or not has_served(state, one))
    ]
    kept = {one for one in sized.values() if one.model.keep and one in line.resting}
    could_have = state.budget - sum(one.memory for one in {*stays, *kept})
    is_coming = state.budget - held(sized, after, Phase.RESIDENT, Phase.LOADING) - sum(one.memory for one in kept)
    assert is_coming >= first.memory or could_have < first.memory


@given(states())
def test_overdue_models_come_by_their_bounds_and_before_others(state: State) -> None:
    line = line_up(state, size_up(state))
    late = [one for one in line.wanted if line.begins[one.name] <= state.now]
    assert late == [*line.wanted][: len(late)]
    begins = [line.begins[one.name] for one in late]
    assert begins == sorted(begins)


@given(states())
def test_all_that_wait_have_places_in_one_order(state: State) -> None:
    places = plan(state).places
    assert sorted(place.number for place in places.values()) == [*range(1, len(places) + 1)]
    assert {model.name for model in state.models if model.waiting and model.phase is not Phase.RESIDENT} <= {*places}
    assert all(place.expected_in is None or place.expected_in >= 0 for place in places.values())


@given(states())
def test_a_model_that_can_never_fit_changes_nothing_for_others(state: State) -> None:
    huge = Model("huge", Phase.ABSENT, state.budget + 1, 5.0, waiting=1000, since=NOW - 200, priority=Priority.HIGH)
    known = [model for model in state.models if model.memory is not None and model.load_seconds is not None]
    state = state._replace(models=known)
    assert plan(state).actions == plan(state._replace(models=[*known, huge])).actions


@given(states())
def test_a_plan_depends_on_nothing_but_the_state(state: State) -> None:
    assert plan(state) == plan(state._replace(models=[*reversed(state.models)]))


@given(states())
def test_planning_again_adds_no_swap_and_no_load(state: State) -> None:
    first = plan(state)
    assert [action for action in plan(apply(state, first)).actions if not isinstance(action, Drain)] == []
    if any(isinstance(action, Drain) for action in first.actions):
        assert plan(apply(state, first)).actions == []
