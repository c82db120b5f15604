"""Another load of a model is seen by Triton's counters, however many requests came since."""

from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.dispatcher.models.loads import (
    DECOUPLED_SETTLE_SECONDS,
    SETTLE_SECONDS,
    Load,
    LoadTracker,
    OwnInferences,
    Reading,
    SavedLoad,
    Verdict,
    find_load,
    name_load,
)
from services.dispatcher.triton.model_version import ModelVersion
from services.dispatcher.triton.statistics import Totals
from tests.unit.clock import Clock

NOW = datetime(2026, 11, 28, tzinfo=UTC)
OLD, NEW = (Load(UUID(int=number), NOW) for number in (1, 2))


def reading(successes: int, settled: int = 0, unsettled: int = 0, nanoseconds: int = 0) -> Reading:
    return Reading(Totals(successes, nanoseconds, nanoseconds, successes), settled, unsettled)


@pytest.fixture
def tracker() -> LoadTracker:
    """Follows a load of five requests."""
    tracker = LoadTracker()
    tracker.look(reading(5, nanoseconds=100))
    assert tracker.compare(None) is Verdict.SAVE
    tracker.begin(OLD, 0)
    tracker.look(reading(5, nanoseconds=100))
    return tracker


def test_counters_that_rise_or_stay_are_of_the_same_load(tracker: LoadTracker) -> None:
    for successes in (5, 6, 6, 9):
        tracker.look(reading(successes, nanoseconds=100 * successes))
        assert tracker.load == OLD
        assert tracker.compare(SavedLoad(OLD, successes)) is Verdict.KEEP


@pytest.mark.parametrize("after", [reading(4, nanoseconds=100), reading(0), reading(5, nanoseconds=99)])
def test_a_counter_that_fell_shows_another_load(tracker: LoadTracker, after: Reading) -> None:
    tracker.look(after)
    assert tracker.load is None
    assert tracker.compare(SavedLoad(OLD, 5)) is Verdict.SAVE


def test_own_requests_that_the_counters_lack_show_another_load(tracker: LoadTracker) -> None:
    """Seven requests came since the reload, more than before. They are all own ones."""
    tracker.look(reading(7, settled=7, nanoseconds=1000))
    assert tracker.load is None


def test_own_requests_show_it_later_if_the_counters_may_not_have_them_yet(tracker: LoadTracker) -> None:
    tracker.look(reading(9, unsettled=9, nanoseconds=1000))
    assert tracker.load == OLD
    tracker.look(reading(9, settled=9, nanoseconds=1000))
    assert tracker.load is None


def test_a_request_that_may_be_counted_later_shows_nothing(tracker: LoadTracker) -> None:
    for after in (reading(5, 0, 3, 100), reading(8, 0, 3, 160), reading(8, 3, 0, 160), reading(10, 4, 1, 200)):
        tracker.look(after)
        assert tracker.load == OLD


def test_what_ran_before_a_load_was_seen_is_not_expected_of_it(tracker: LoadTracker) -> None:
    """Three own requests of the old load settle only after the new one began."""
    tracker.look(reading(8, 0, 3, 200))
    tracker.look(reading(0, 0, 3))
    tracker.begin(NEW, 0)  # they are forgotten
    for after in (reading(0), reading(1, 1, nanoseconds=10)):
        tracker.look(after)
        assert tracker.load == NEW


def test_a_load_that_another_dispatcher_saw_first_is_taken_over(tracker: LoadTracker) -> None:
    """The last reading here is of the load before. So the next one may be lower, and shows nothing."""
    assert tracker.compare(SavedLoad(NEW, 0)) is Verdict.TAKE
    tracker.begin(NEW, 0)
    assert (tracker.load, tracker.executions) == (NEW, 0)
    tracker.look(reading(2, nanoseconds=10))
    assert tracker.load == NEW


def test_two_dispatchers_that_see_a_load_at_once_agree(tracker: LoadTracker) -> None:
    tracker.look(reading(1))
    assert tracker.load is None
    assert tracker.compare(SavedLoad(NEW, 1)) is Verdict.TAKE


def test_a_version_that_was_not_ready_has_another_load(tracker: LoadTracker) -> None:
    tracker.end()
    tracker.look(reading(5, nanoseconds=100))
    assert tracker.compare(SavedLoad(OLD, 5)) is Verdict.SAVE


@pytest.mark.parametrize(
    ("successes", "saved", "is_adopted"),
    [
        (5, SavedLoad(OLD, 5), True),
        (9, SavedLoad(OLD, 5), True),
        (4, SavedLoad(OLD, 5), False),
        (0, SavedLoad(OLD, 0), False),
        (0, SavedLoad(OLD, 0, held=True), True),
    ],
)
def test_a_dispatcher_that_starts_adopts_the_load_unless_the_counter_fell(
    successes: int, saved: SavedLoad, is_adopted: bool
) -> None:
    """A load without requests has no results, so a new id loses nothing, unless another dispatcher runs jobs of it."""
    tracker = LoadTracker()
    tracker.look(reading(successes))
    assert tracker.compare(saved) is (Verdict.TAKE if is_adopted else Verdict.SAVE)


def test_a_result_is_of_a_load_that_was_there_before_and_after() -> None:
    assert find_load({"1": OLD}, {"1": OLD}, "1") == OLD.id
    assert find_load({"1": OLD}, {"1": OLD._replace(at=None)}, "1") == OLD.id
    for before, after in (({"1": OLD}, {"1": NEW}), ({}, {"1": NEW}), ({"1": OLD}, {}), ({"2": OLD}, {"2": OLD})):
        assert find_load(before, after, "1") is None


MODEL = ModelVersion("echo", "1", False, 8, 1, [], [], {"charonia.weights": "2026-11", "backend": "python"})


def with_settings(**changed: str) -> ModelVersion:
    settings = {**MODEL.settings, **{f"charonia.{name}": value for name, value in changed.items()}}
    return ModelVersion("echo", "1", False, 64, 4, [], [], settings)


def test_named_weights_are_the_same_model_wherever_and_whenever_they_are_loaded() -> None:
    named = name_load(MODEL)
    assert named is not None
    assert name_load(with_settings()) == named
    assert name_load(with_settings(reuse_seconds="60")) == named
    assert name_load(with_settings(weights="2026-12")) != named
    assert name_load(ModelVersion("echo", "1", True, 8, 1, [], [], MODEL.settings)) != named
    assert name_load(ModelVersion("other", "1", False, 8, 1, [], [], MODEL.settings)) != named
    assert name_load(ModelVersion("echo", "1", False, 8, 1, [], [])) is None
    assert name_load(with_settings(weights="")) is None


NO_COUNT = Totals(0, 0, 0)


def test_own_inferences_settle_some_time_after_their_end() -> None:
    clock = Clock()
    own = OwnInferences(clock)
    with own.run() as note_success:
        assert own.read("1", NO_COUNT, own.mark(decoupled=False)) == (NO_COUNT, 0, 1)
        note_success("1")
    assert own.read("1", NO_COUNT, own.mark(decoupled=False)) == (NO_COUNT, 0, 1)
    clock.now += SETTLE_SECONDS + 1
    mark = own.mark(decoupled=False)
    assert own.read("1", NO_COUNT, mark) == (NO_COUNT, 1, 0)
    with own.run() as note_success:
        note_success("1")
    assert own.read("1", NO_COUNT, mark) == (NO_COUNT, 1, 1)
    assert own.read("2", NO_COUNT, mark) == (NO_COUNT, 0, 0)


def test_a_decoupled_model_may_count_late() -> None:
    clock = Clock()
    own = OwnInferences(clock)
    with own.run() as note_success:
        note_success("1")
    clock.now += DECOUPLED_SETTLE_SECONDS - 1
    assert own.read("1", NO_COUNT, own.mark(decoupled=True)) == (NO_COUNT, 0, 1)
    clock.now += 2
    assert own.read("1", NO_COUNT, own.mark(decoupled=True)) == (NO_COUNT, 1, 0)


def test_inferences_from_before_a_load_count_nowhere() -> None:
    clock = Clock()
    own = OwnInferences(clock)
    with own.run() as note_success:
        own.forget_unsettled()
        note_success("1")
        assert own.read("1", NO_COUNT, own.mark(decoupled=False)) == (NO_COUNT, 0, 0)
    with own.run():
        assert own.read("1", NO_COUNT, own.mark(decoupled=False)) == (NO_COUNT, 0, 1)
    assert own.read("1", NO_COUNT, own.mark(decoupled=False)) == (NO_COUNT, 0, 0)


class OneVersion:
    """A version in a Triton and a dispatcher that follows its loads. Own results remember the id that they got."""

    def __init__(self) -> None:
        self.clock, self.tracker = Clock(), LoadTracker()
        self.own = OwnInferences(self.clock)
        self.count = self.late = self.load = 0
        self.results: list[tuple[UUID, int]] = []  # the id, and the load that answered
        self.ids = 0
        self.refresh()

    def run(self, *, late: bool) -> None:
        """Run an own request. Triton may count it a bit later."""
        assert self.tracker.load is not None
        with self.own.run() as note_success:
            note_success("1")
        self.results.append((self.tracker.load.id, self.load))
        if late:
            self.late += 1
        else:
            self.count += 1

    def wait(self) -> None:
        self.count, self.late = self.count + self.late, 0
        self.clock.now += SETTLE_SECONDS + 1

    def reload(self) -> None:
        self.count, self.late, self.load = 0, 0, self.load + 1

    def refresh(self) -> None:
        self.tracker.look(self.own.read("1", Totals(self.count, 0, 0, self.count), self.own.mark(decoupled=False)))
        if self.tracker.load is None:
            self.ids += 1
            self.tracker.begin(Load(UUID(int=self.ids), NOW), self.own.forget_unsettled()["1"])

    def do(self, step: str) -> None:
        match step:
            case "own" | "late":
                self.run(late=step == "late")
            case "other":
                self.count += 1
            case _:
                getattr(self, step)()


OWN_STEPS = ["own", "late", "wait", "refresh"]


@given(st.lists(st.sampled_from([*OWN_STEPS, "other"]), max_size=60))
def test_without_a_reload_there_is_one_load(steps: list[str]) -> None:
    version = OneVersion()
    for step in steps:
        version.do(step)
        assert version.ids == 1


@given(st.lists(st.sampled_from([*OWN_STEPS, "other"]), max_size=20), st.lists(st.sampled_from([*OWN_STEPS, "reload"])))
def test_own_results_of_earlier_loads_answer_nobody(steps: list[str], more: list[str]) -> None:
    """However many own requests came since a reload, if there were none of others."""
    version = OneVersion()
    for step in (*steps, "reload", *more, "wait", "refresh"):
        version.do(step)
    assert version.tracker.load is not None
    assert {load for load_id, load in version.results if load_id == version.tracker.load.id} <= {version.load}
