"""The memory of an ensemble is that of its models, too. Each model is counted once."""

from services.dispatcher.residency.ensembles import count_steps, find_steps
from services.dispatcher.residency.rule import Action, Drain, Load, Model, Phase, plan
from services.dispatcher.residency.state import size_up
from tests.support.residency.models import absent, overdue, resident, state


def ensemble(model: Model, *steps: str) -> Model:
    return model._replace(memory=1, steps=steps)


def step(name: str) -> Model:
    """Return a model that an ensemble in memory needs."""
    return resident(name)._replace(is_frozen=True)


def act(*models: Model, budget: int = 201) -> list[Action]:
    return [*plan(state(*models, budget=budget)).actions]


def count(*models: Model) -> dict[str, tuple[int, int]]:
    return {one.name: (one.memory, one.rest) for one in count_steps(size_up(state(*models)))}


def test_the_steps_of_an_ensemble_may_be_ensembles() -> None:
    steps = {"outer": ["inner", "a"], "inner": ["a", "b"], "loop": ["loop"]}
    assert find_steps(["outer"], steps) == {"inner", "a", "b"}
    assert find_steps(["loop", "a"], steps) == {"loop"}


def test_an_ensemble_is_loaded_only_if_its_models_fit() -> None:
    wanted = ensemble(absent("e"), "a", "b")
    models = [absent("a", waiting=0), absent("b", waiting=0)]
    assert act(wanted, *models) == [Load("e")]
    assert act(wanted, *models, resident("v")) == [Drain("v", "e")]
    assert act(wanted, *models, budget=200) == []  # it can never be loaded


def test_a_model_that_is_there_takes_no_room_again_and_is_no_victim() -> None:
    wanted = ensemble(overdue("e"), "a", "b")
    assert act(wanted, resident("a"), absent("b", waiting=0)) == [Load("e")]
    assert act(wanted, resident("a"), absent("b", waiting=0), resident("v"), budget=250) == [Drain("v", "e")]
    assert act(wanted, resident("a"), absent("b", waiting=0), overdue("c"), budget=200) == [Load("c")]


def test_an_ensemble_goes_for_the_room_of_its_models() -> None:
    """Its models stay as long as it does. So otherwise nothing could make room."""
    models = [ensemble(resident("e"), "a", "b"), step("a"), step("b")]
    assert act(*models, overdue("c")) == [Drain("e", "c")]


def test_each_model_counts_once() -> None:
    inner, outer = ensemble(resident("inner"), "a"), ensemble(resident("outer"), "inner", "a", "kept")
    models = [inner, outer, step("a"), step("kept")._replace(keep=True)]
    assert count(*models) == {"a": (0, 0), "inner": (0, 0), "kept": (100, 0), "outer": (102, 0)}
    other = ensemble(absent("other"), "a", "c", "kept")
    assert count(*models, other, absent("c"))["other"] == (101, 100)
    loading = ensemble(resident("e")._replace(phase=Phase.LOADING), "a")
    assert count(loading, absent("a")) == {"a": (0, 0), "e": (101, 0)}
