"""What a candidate and a leader do with the answers of the database."""

import asyncio

import pytest
from prometheus_client import REGISTRY

from common.errors import CharoniaError, DatabaseUnavailable
from common.postgres import leadership
from common.postgres.leadership import Answer, Leadership, LeaseStore, Loop, Loops, choose_pause

ROLE = "tests"


class FakeStore(LeaseStore):
    """Gives these answers, None for an outage, and cancels its caller after the last."""

    role = ROLE

    def __init__(self, *answers: Answer | None) -> None:
        self.answers = list(answers)
        self.released = False

    async def acquire(self, *, is_fit: bool = True) -> Answer:
        if not self.answers:
            raise asyncio.CancelledError
        answer = self.answers.pop(0)
        if answer is None:
            raise DatabaseUnavailable
        return answer

    async def release(self) -> None:
        self.released = True


class World:
    def __init__(self, store: FakeStore, loop: Loop) -> None:
        self.store = store
        self.noted = 0
        self.led: list[float | None] = []
        self._loop = loop
        self._leadership = Leadership(store, self._begin, patience=0.0, note_answer=self._note)

    async def run(self) -> None:
        async with asyncio.timeout(20):
            await self._leadership.run()

    def _begin(self) -> Loops:
        self.led.append(read_gauge())
        return {"work": self._loop}

    async def _note(self, _answer: Answer) -> None:
        self.noted += 1


def read_gauge() -> float | None:
    return REGISTRY.get_sample_value("charonia_leader", {"role": ROLE})


def count_failures() -> float:
    labels = {"role": ROLE, "loop": "work"}
    return REGISTRY.get_sample_value("charonia_leader_loop_failures_total", labels) or 0.0


async def end() -> None:
    """End by itself, which no loop does."""


@pytest.mark.parametrize(
    ("seconds", "pause"),
    [
        pytest.param(3.5, 1.5, id="until the leader should have renewed the lease"),
        pytest.param(5.0, 2.0, id="not longer than it is patient, because a leader may stop"),
        pytest.param(1.5, 0.5, id="half a second, because the leader may be dead"),
        pytest.param(0.2, 0.2, id="until the end of the lease"),
        pytest.param(-3600.0, 0.05, id="a moment, if another candidate was faster"),
    ],
)
def test_a_candidate_waits(seconds: float, pause: float) -> None:
    assert choose_pause(seconds, 2.0) == pause


async def test_a_loop_that_ends_by_itself_ends_the_service_and_the_leadership() -> None:
    world = World(FakeStore(Answer(True, 0.0)), end)
    with pytest.raises(CharoniaError, match="the loop 'work' ended by itself"):
        await world.run()
    assert (world.led, read_gauge(), world.store.released) == ([1.0], 0.0, True)


async def test_a_loop_that_fails_is_logged_and_runs_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(leadership, "FAILED_SECONDS", 0.0)
    before, left = count_failures(), [ValueError("a bug"), ValueError("a bug")]

    async def fail_twice() -> None:
        if left:
            raise left.pop()

    with pytest.raises(CharoniaError, match="ended by itself"):  # after the third run
        await World(FakeStore(Answer(True, 0.0)), fail_twice).run()
    failed = [record for record in caplog.records if record.message == "leader.loop_failed"]
    assert [record.exc_info is not None for record in failed] == [True, True]
    assert count_failures() - before == 2


async def test_a_candidate_notes_each_answer_and_logs_an_outage_once(caplog: pytest.LogCaptureFixture) -> None:
    away = Answer(False, 0.0)
    world = World(FakeStore(away, None, None, away, Answer(True, 0.0)), end)
    with pytest.raises(CharoniaError):
        await world.run()
    assert world.noted == 3
    assert [record.message for record in caplog.records].count("leader.database_unavailable") == 1
