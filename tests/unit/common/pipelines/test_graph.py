"""The order of steps, and cycles."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.pipelines.definition import StepDefinition
from common.pipelines.graph import find_cycle, find_needs, order_steps

STEPS = "abcdef"
NEEDS = st.permutations(STEPS).flatmap(
    lambda steps: st.fixed_dictionaries({each: st.lists(st.sampled_from(STEPS), max_size=2) for each in steps})
)


def test_each_step_is_needed_once_and_inputs_are_no_steps() -> None:
    inputs = {"x": "$inputs.x", "y": "$b.y", "z": "$a.z", "again": "$b.z"}
    assert find_needs({"c": StepDefinition(model="echo", inputs=inputs)}) == {"c": ["b", "a"]}


@pytest.mark.parametrize(
    ("needs", "order"),
    [
        ({"a": [], "b": [], "c": []}, "abc"),
        ({"a": ["c"], "b": [], "c": []}, "bca"),
        ({"a": [], "b": ["d"], "c": ["a"], "d": ["a"]}, "acdb"),
        ({"a": ["b"], "b": ["a"], "c": ["a"], "d": []}, "d"),
    ],
)
def test_steps_come_after_those_they_need_and_else_as_defined(needs: dict[str, list[str]], order: str) -> None:
    assert "".join(order_steps(needs)) == order


@pytest.mark.parametrize(
    ("needs", "cycle"),
    [
        ({"a": [], "b": ["a"]}, ""),
        ({"a": ["a"]}, "a"),
        ({"a": ["c"], "b": ["a"], "c": ["b"]}, "acb"),
        ({"d": ["b"], "a": [], "b": ["a", "c"], "c": ["b", "a"]}, "bc"),
    ],
)
def test_a_cycle_is_named_in_the_order_of_its_references(needs: dict[str, list[str]], cycle: str) -> None:
    assert "".join(find_cycle(needs)) == cycle


@given(NEEDS)
def test_either_all_steps_have_an_order_or_there_is_a_cycle(needs: dict[str, list[str]]) -> None:
    order, cycle = order_steps(needs), find_cycle(needs)
    assert all(set(needs[step]) <= set(order[:place]) for place, step in enumerate(order))
    assert (len(order) == len(needs)) is not bool(cycle)
    assert all(after in needs[step] for step, after in zip(cycle, [*cycle[1:], *cycle[:1]], strict=True))
    assert len(set(cycle)) == len(cycle)
