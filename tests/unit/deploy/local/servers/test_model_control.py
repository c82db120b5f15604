"""The models of a server that starts."""

import itertools
import threading

import pytest

from deploy.local.servers import model_control
from deploy.local.servers.model_control import (
    LOADING,
    READY,
    UNAVAILABLE,
    UNKNOWN,
    UNLOADED,
    IndexEntry,
    ModelControl,
    NoAnswer,
)


class HangingLoads(ModelControl):
    """A server whose loads do not answer before the test ends."""

    def __init__(self) -> None:
        super().__init__(0, "")
        self.begun, self.ended, self.answered = threading.Event(), threading.Event(), threading.Event()

    def list_models(self) -> list[IndexEntry]:
        return [IndexEntry("slow", "1", UNKNOWN, "")]

    def load(self, model: str, seconds: float = 0.0) -> None:
        self.begun.set()
        self.ended.wait(5.0)
        self.answered.set()


def test_loads_of_a_server_that_has_died_are_not_waited_for() -> None:
    """A Python process that it has just started may keep its connections open."""
    models = HangingLoads()
    models.load_new(lambda: not models.begun.is_set())
    assert not models.answered.is_set()
    models.ended.set()


class BlockedThread(HangingLoads):
    """A server whose first call of each kind waits behind a load that never ends."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.state = UNKNOWN

    def _post(self, what: str, seconds: float) -> str:
        self.calls.append(what)
        if self.calls.count(what) == 1:
            raise NoAnswer("no answer")
        return "[]"

    def list_models(self) -> list[IndexEntry]:
        return [IndexEntry("good", "1", self.state, "")]

    def load(self, model: str, seconds: float = 0.0) -> None:
        self.calls.append(model)
        if self.calls.count(model) == 1:
            self.ended.wait(5.0)
            self.answered.set()
        self.state = READY


class LoadsThatNeverBegin(HangingLoads):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self._clock = map(float, itertools.count()).__next__

    def _begin_load(self, model: str) -> threading.Thread:
        self.calls += 1
        return threading.current_thread()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_control, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(model_control, "POLL_SECONDS", 0.0)


@pytest.mark.usefixtures("impatient")
def test_a_load_that_waits_behind_another_one_is_sent_again() -> None:
    models = BlockedThread()
    models.load_new()
    assert models.state == READY
    assert not models.answered.is_set()
    models.ended.set()


@pytest.mark.usefixtures("impatient")
def test_a_load_that_never_begins_is_sent_a_few_times_only() -> None:
    models = LoadsThatNeverBegin()
    models.load_new()
    assert models.calls == model_control.CALLS


def test_an_index_that_waits_behind_a_load_is_read_again() -> None:
    models = BlockedThread()
    assert ModelControl.list_models(models) == []
    assert models.calls == ["index", "index"]


class Listed(ModelControl):
    def __init__(self, *entries: IndexEntry) -> None:
        super().__init__(0, "")
        self._entries = [*entries]

    def list_models(self) -> list[IndexEntry]:
        return self._entries


def test_a_model_that_is_loaded_when_jobs_wait_for_it_is_no_problem() -> None:
    states = {"new": (UNKNOWN, ""), "gone": (UNAVAILABLE, UNLOADED), "coming": (LOADING, ""), "ready": (READY, "")}
    listed = [IndexEntry(name, "1", state, reason) for name, (state, reason) in states.items()]
    models = Listed(*listed, IndexEntry("torn", "1", UNAVAILABLE, "no such file"))
    assert models.find_problems(is_managed=True) == {"torn": "no such file"}
    assert models.find_problems().keys() == {"new", "gone", "coming", "torn"}
