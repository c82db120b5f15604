"""What becomes of a model from look to look."""

import pytest

from services.dispatcher.residency.loads import Loaded
from services.dispatcher.residency.observations import (
    LONGEST_PAUSE,
    RELOAD_SECONDS,
    SMOOTHING_SECONDS,
    STOPPED,
    Usage,
    assume_memory,
    follow,
    is_coming,
    is_stuck,
    move,
    note_ended,
    note_failed,
    size,
)
from services.dispatcher.residency.state import Phase
from services.dispatcher.residency.store import Found, Residency
from services.dispatcher.triton.model_control import ModelState, State

GB = 10**9
BUDGET = 8 * GB


def row(phase: Phase = Phase.ABSENT, **values: object) -> Residency:
    found = Residency(name="m", phase=phase, changed_at=0.0)
    for name, value in values.items():
        setattr(found, name, value)
    return found


@pytest.mark.parametrize(
    ("before", "seen", "after"),
    [
        (Phase.ABSENT, State.ABSENT, Phase.ABSENT),
        (Phase.ABSENT, State.LOADING, Phase.LOADING),  # an operator loads it
        (Phase.ABSENT, State.READY, Phase.RESIDENT),
        (Phase.LOADING, State.LOADING, Phase.LOADING),  # the leader before began it
        (Phase.LOADING, State.READY, Phase.RESIDENT),
        (Phase.RESIDENT, State.READY, Phase.RESIDENT),
        (Phase.RESIDENT, State.UNLOADING, Phase.DRAINING),  # an operator unloads it
        (Phase.RESIDENT, State.ABSENT, Phase.ABSENT),  # Triton started again
        (Phase.DRAINING, State.READY, Phase.DRAINING),
        (Phase.DRAINING, State.UNLOADING, Phase.DRAINING),
        (Phase.DRAINING, State.ABSENT, Phase.ABSENT),
    ],
)
def test_a_phase_follows_the_index(before: Phase, seen: State, after: Phase) -> None:
    model = row(before, loaded_at=5.0 if before in (Phase.RESIDENT, Phase.DRAINING) else None)
    follow(model, ModelState(seen), 9.0, is_own_load=False)
    assert (model.phase, model.changed_at) == (after, 0.0 if before is after else 9.0)
    assert (model.loaded_at is not None) == (after in (Phase.RESIDENT, Phase.DRAINING))
    assert model.failures == 0


@pytest.mark.parametrize(("reason", "shown"), [("no such file", "no such file"), (None, STOPPED)])
def test_a_load_that_nobody_waited_for_may_have_failed(reason: str | None, shown: str) -> None:
    model = row(Phase.LOADING)
    follow(model, ModelState(State.ABSENT, reason), 9.0, is_own_load=False)
    assert (model.phase, model.failures, model.next_try_at, model.reason) == (Phase.ABSENT, 1, 14.0, shown)


@pytest.mark.parametrize("seen", State)
def test_a_load_of_this_dispatcher_lasts_until_its_call_ends(seen: State) -> None:
    model = row(Phase.LOADING)
    follow(model, ModelState(seen), 9.0, is_own_load=True)
    assert model.phase is Phase.LOADING


@pytest.mark.parametrize(
    ("before", "began", "after"),
    [
        (Phase.RESIDENT, 0.0, Phase.LOADING),
        (Phase.DRAINING, 0.0, Phase.LOADING),  # it was to make room
        (Phase.LOADING, 100.0 - RELOAD_SECONDS + 1, Phase.LOADING),
        (Phase.LOADING, 100.0 - RELOAD_SECONDS, Phase.ABSENT),  # its reload fails
        (Phase.ABSENT, 0.0, Phase.ABSENT),
    ],
)
def test_a_model_keeps_its_room_during_its_reload(before: Phase, began: float, after: Phase) -> None:
    model = row(before, changed_at=began)
    follow(model, ModelState(State.ABSENT), 100.0, is_own_load=False, is_reload=True)
    assert model.phase is after
    assert model.failures == (before is Phase.LOADING and after is Phase.ABSENT)


def test_pauses_after_failures_double_up_to_a_limit_and_end_with_a_load_that_works() -> None:
    model = row(Phase.LOADING)
    for pause in (5.0, 10.0, 20.0, 40.0, 80.0, 160.0, LONGEST_PAUSE, LONGEST_PAUSE):
        note_failed(model, "torn", 100.0)
        assert model.next_try_at == 100.0 + pause
    note_ended(model, Loaded("m", 4.0), 200.0, BUDGET)
    assert (model.phase, model.loaded_at, model.failures) == (Phase.RESIDENT, 200.0, 0)
    assert (model.next_try_at, model.reason) == (None, None)


def test_a_load_that_hung_for_long_rests_for_as_long() -> None:
    """Otherwise a model that always hangs would have nearly all the time, and loads are one at a time."""
    model = row(Phase.LOADING)
    note_ended(model, Loaded("m", 600.0, error="it hangs"), 1000.0, BUDGET)
    assert model.next_try_at == 1600.0
    other = row(Phase.LOADING)
    note_ended(other, Loaded("m", 60.0, error="Triton stood still", is_outage=True), 1000.0, BUDGET)
    assert other.next_try_at == 1005.0  # after an outage, all is as quick as before


@pytest.mark.parametrize(("memory", "largest", "assumed"), [(3, 5, 3), (None, 5, 5), (None, BUDGET + 1, BUDGET)])
def test_a_model_that_nobody_measured_counts_as_the_largest_one(memory: int | None, largest: int, assumed: int) -> None:
    model = row(Phase.DRAINING, memory=memory)
    rows = {"m": model, "n": row(memory=largest)}
    assert assume_memory(model, rows, BUDGET) == assumed


def test_half_of_the_weight_is_on_the_last_load() -> None:
    model = row(Phase.LOADING)
    for seconds in (4.0, 8.0):
        note_ended(model, Loaded("m", seconds), 1.0, BUDGET)
    assert model.load_seconds == 6.0


def test_a_load_that_lacked_memory_evicts_more_the_next_time() -> None:
    model = row(Phase.LOADING)
    size(model, 4 * GB, BUDGET)
    note_ended(model, Loaded("m", 1.0, error="CUDA out of memory", lacked_memory=True), 1.0, BUDGET)
    size(model, 4 * GB, BUDGET)
    assert (model.memory, model.reason) == (6 * GB, "CUDA out of memory")
    note_ended(model, Loaded("m", 1.0, error="CUDA out of memory", lacked_memory=True), 2.0, BUDGET)
    size(model, 4 * GB, BUDGET)
    assert model.memory == BUDGET  # it may have the whole, and no more
    note_ended(model, Loaded("m", 1.0, growth=5 * GB), 3.0, BUDGET)
    size(model, None, BUDGET)
    assert model.memory == 5 * GB


def test_what_is_declared_counts_before_what_was_measured() -> None:
    model = row(measured=3 * GB)
    size(model, None, BUDGET)
    assert model.memory == 3 * GB
    size(model, 2 * GB, BUDGET)
    assert model.memory == 2 * GB
    size(model := row(), None, BUDGET)
    assert model.memory is None


def test_a_model_that_can_never_fit_says_so_until_it_can() -> None:
    model = row()
    size(model, 9 * GB, BUDGET)
    assert model.reason is not None
    assert model.reason.startswith("it takes 9000000000 bytes, and CHARONIA_MODEL_MEMORY is 8000000000")
    size(model, 8 * GB, BUDGET)
    assert model.reason is None


def test_a_drain_names_the_model_that_gets_the_room_as_long_as_it_lasts() -> None:
    model = row(Phase.RESIDENT, loaded_at=1.0)
    move(model, Phase.DRAINING, 2.0)
    model.for_model = "other"
    move(model, Phase.DRAINING, 3.0)
    assert (model.for_model, model.changed_at, model.loaded_at) == ("other", 2.0, 1.0)
    move(model, Phase.RESIDENT, 4.0)
    assert [model.for_model, model.loaded_at] == [None, 1.0]


def test_arrivals_are_what_ran_and_by_how_much_more_waits() -> None:
    usage, rows = Usage(), {"m": row()}
    seconds = SMOOTHING_SECONDS * 20  # so that all weight is on the last interval
    for number, (counts, came) in enumerate(
        [
            ((100, 0, 0), 0),  # what ran before the first look is not known to be new
            ((160, 40, 1), 100),
            ((200, 0, 0), 0),  # what waited ran
            ((7, 0, 0), 7),  # it was loaded again
            ((0, 5, 0), 5),
        ]
    ):
        usage.update(rows, number * seconds, {"m": counts})
        assert rows["m"].arrivals == pytest.approx(came / seconds, abs=1e-6)


def test_a_model_is_used_while_jobs_wait_or_run() -> None:
    usage, rows = Usage(), {"m": row()}
    used = []
    for number, counts in enumerate([(5, 0, 0), (5, 0, 0), (6, 0, 0), (0, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 0)]):
        usage.update(rows, float(number), {"m": counts})
        used.append(rows["m"].used_at)
    assert used == [0.0, 0.0, 2.0, 2.0, 4.0, 5.0, 5.0]


def test_a_model_has_left_when_it_was_unloaded_and_not_when_a_load_failed() -> None:
    model = row(Phase.RESIDENT)
    move(model, Phase.DRAINING, 5.0)
    assert (model.phase, model.left_at) == (Phase.DRAINING, None)
    move(model, Phase.ABSENT, 7.0)
    assert model.left_at == 7.0
    move(model, Phase.LOADING, 8.0)
    note_failed(model, "no such file", 9.0)
    assert model.left_at == 7.0


@pytest.mark.parametrize(
    ("phase", "is_known", "age", "expected"),
    [
        (Phase.LOADING, False, 0.0, True),
        (Phase.LOADING, True, 0.0, False),
        (Phase.RESIDENT, False, 4.9, True),
        (Phase.RESIDENT, False, 5.0, False),
        (Phase.RESIDENT, True, 0.0, False),
    ],
)
def test_a_model_that_nobody_knows_may_bring_others(phase: Phase, is_known: bool, age: float, expected: bool) -> None:
    model = row(phase)
    model.loaded_at = 10.0 if phase is Phase.RESIDENT else None
    found = Found(model, is_known, None, None, 1, False, 0, (), False)
    assert is_coming(found, model, 10.0 + age) is expected


def test_a_drain_of_more_than_a_minute_does_not_end() -> None:
    model = row(Phase.RESIDENT)
    move(model, Phase.DRAINING, 10.0)
    assert not is_stuck(model, 70.0)
    assert is_stuck(model, 70.1)
    assert not is_stuck(row(Phase.RESIDENT), 1000.0)
