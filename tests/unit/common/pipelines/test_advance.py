"""Which steps of a run begin, and which of their elements."""

from collections.abc import Mapping, Sequence

import hypothesis
from hypothesis import strategies as st

from common.pipelines import advance
from common.pipelines.advance import WINDOW
from common.pipelines.run_state import Place, RunState, StepState, StepStatus, begin, decode, encode, stop

DIAMOND = {"read": [], "left": ["read"], "right": ["read"], "join": ["left", "right"]}


def succeed(state: RunState, *steps: str) -> RunState:
    """Return the state after steps of one element have run."""
    for step in steps:
        state = advance.note_made(advance.start(state, step, 1), step, 1, Place(1))
        state = advance.note_success(state, step, 1.0)
    return state


def test_a_step_begins_when_all_that_it_needs_have_succeeded() -> None:
    state = begin(DIAMOND)
    assert advance.list_ready(state, DIAMOND) == ["read"]
    state = succeed(state, "read")
    assert advance.list_ready(state, DIAMOND) == ["left", "right"]
    state = succeed(state, "left")
    assert advance.list_ready(state, DIAMOND) == ["right"]
    state = succeed(state, "right")
    assert advance.list_ready(state, DIAMOND) == ["join"]
    assert not advance.has_succeeded(state)
    assert advance.has_succeeded(succeed(state, "join"))


def test_a_step_without_elements_has_succeeded() -> None:
    state = advance.start(begin(DIAMOND), "read", 0)
    assert state["read"].status is StepStatus.SUCCEEDED
    assert advance.list_ready(state, DIAMOND) == ["left", "right"]


@hypothesis.given(total=st.integers(1, 5 * WINDOW), ends=st.lists(st.integers(1, WINDOW), max_size=30))
def test_each_element_gets_one_job_and_few_are_in_flight(total: int, ends: Sequence[int]) -> None:
    state = advance.start(begin(["each"]), "each", total)
    made: list[int] = []
    for count in [0, *ends, *[WINDOW] * (total // WINDOW + 1)]:
        for _ in range(min(count, state["each"].in_flight)):
            state = advance.note_success(state, "each", 1.0)
        wanted = advance.list_wanted(state["each"])
        made += wanted
        if wanted:
            state = advance.note_made(state, "each", wanted.stop, Place(wanted.stop))
        assert state["each"].in_flight <= WINDOW
        assert state["each"].in_flight or state["each"].done == total
    assert made == [*range(total)]
    assert state["each"].status is StepStatus.SUCCEEDED


def test_a_run_that_ends_early_says_what_became_of_each_step() -> None:
    state: Mapping[str, StepState] = succeed(begin(DIAMOND), "read")
    state = advance.start(advance.start(state, "left", 1), "right", 1)
    assert {name: step.status for name, step in stop(state, "left").items()} == {
        "read": StepStatus.SUCCEEDED,
        "left": StepStatus.FAILED,
        "right": StepStatus.CANCELED,
        "join": StepStatus.CANCELED,
    }


def test_a_state_survives_storage() -> None:
    state = advance.start(begin(DIAMOND), "read", 7)
    assert decode(encode(state)) == state
