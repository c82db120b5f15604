"""The dispatchers of one Triton share its quarantines through PostgreSQL."""

import asyncio
from collections.abc import Collection

import pytest

from common.postgres.database import Database
from services.dispatcher.quarantines.reloader import Reloader
from services.dispatcher.quarantines.shared_quarantine import SharedQuarantine, name_server
from services.dispatcher.quarantines.store import QuarantineStore, SavedQuarantine
from services.dispatcher.triton.quarantine import Quarantine


class RecordedReloads(Reloader):
    """Reloads that begin, and end when a test says so."""

    is_possible = True

    def __init__(self) -> None:
        self.models: list[str] = []
        self.begun: set[str] = set()
        self.ended: dict[str, float | None] = {}

    @property
    def running(self) -> set[str]:
        return self.begun

    def start(self, models: Collection[str]) -> None:
        self.models += models
        self.running.update(models)

    def end(self, model: str, pause: float | None) -> None:
        """`pause`: in seconds, until another try. None: the model is loaded."""
        self.running.remove(model)
        self.ended[model] = pause

    def take_ended(self) -> dict[str, float | None]:
        ended, self.ended = self.ended, {}
        return ended

    async def stop(self) -> set[str]:
        return self.running


class Dispatcher:
    def __init__(self, database: Database, server: str = "triton:8001") -> None:
        self.quarantine, self.reloads, self.refresh_requested = Quarantine(), RecordedReloads(), asyncio.Event()
        store = QuarantineStore(database)
        self.shared = SharedQuarantine(self.quarantine, store, self.reloads, self.refresh_requested, server)

    async def synchronize(self) -> set[str]:
        await self.shared.synchronize()
        return self.quarantine.models


@pytest.fixture
async def first(database: Database) -> Dispatcher:
    return Dispatcher(database)


@pytest.fixture
async def second(database: Database) -> Dispatcher:
    return Dispatcher(database)


async def test_a_stall_is_known_to_the_dispatchers_of_the_same_server(
    database: Database, first: Dispatcher, second: Dispatcher
) -> None:
    other = Dispatcher(database, "other:8001")
    assert [await each.synchronize() for each in (first, second, other)] == [set()] * 3
    first.quarantine.add("work")
    assert [await each.synchronize() for each in (first, second, other)] == [{"work"}, {"work"}, set()]
    assert (second.refresh_requested.is_set(), other.refresh_requested.is_set()) == (True, False)
    assert await Dispatcher(database).synchronize() == {"work"}  # one that starts now
    assert (first.reloads.models, second.reloads.models) == (["work"], [])


async def test_whoever_sees_the_reload_ends_the_quarantine_for_all(first: Dispatcher, second: Dispatcher) -> None:
    first.quarantine.add("work")
    assert [await each.synchronize() for each in (first, second)] == [{"work"}, {"work"}]
    second.quarantine.release("work")
    assert [await each.synchronize() for each in (second, first)] == [set(), set()]
    assert first.quarantine.accepts("work", first.quarantine.epoch("work"))
    second.quarantine.add("work")  # the new process
    assert [await each.synchronize() for each in (second, first)] == [{"work"}, {"work"}]


async def test_a_missed_quarantine_still_rejects_answers_from_before_it(first: Dispatcher, second: Dispatcher) -> None:
    await second.synchronize()
    sent = second.quarantine.epoch("work")
    for _ in range(2):
        first.quarantine.add("work")
        await first.synchronize()
        first.quarantine.release("work")
        await first.synchronize()
        assert await second.synchronize() == set()
        assert not second.quarantine.accepts("work", sent)
        sent = second.quarantine.epoch("work")
        assert await second.synchronize() == set()
        assert second.quarantine.accepts("work", sent)


async def test_a_new_stall_is_not_ended_by_a_late_end_of_the_last_one(first: Dispatcher, second: Dispatcher) -> None:
    first.quarantine.add("work")
    assert [await each.synchronize() for each in (first, second)] == [{"work"}, {"work"}]
    for each in (first, second):
        each.quarantine.release("work")
    second.quarantine.add("work")
    assert [await each.synchronize() for each in (second, first)] == [{"work"}, {"work"}]
    assert await second.synchronize() == {"work"}


async def test_a_release_while_the_quarantine_is_saved_ends_it(
    first: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    first.quarantine.add("work")
    read = QuarantineStore.list_all

    async def release_and_read(store: QuarantineStore, server: str) -> list[SavedQuarantine]:
        first.quarantine.release("work")
        return await read(store, server)

    with monkeypatch.context() as patched:
        patched.setattr(QuarantineStore, "list_all", release_and_read)
        await first.synchronize()
    for _ in range(2):
        assert await first.synchronize() == set()
    assert first.reloads.models == []  # it is healthy


async def test_a_new_quarantine_is_left_to_a_dispatcher_that_saw_the_stall(
    database: Database, first: Dispatcher, second: Dispatcher
) -> None:
    """It knows first that the server was started again. If it dies, another one takes over."""
    first.quarantine.add("work")
    first.reloads.is_possible = False
    await first.synchronize()
    await second.synchronize()
    assert second.reloads.models == []
    await database.fetch("UPDATE quarantines SET began_at = began_at - interval '6 s'")
    await second.synchronize()
    assert second.reloads.models == ["work"]


async def test_a_model_with_fewer_executions_than_at_the_stall_is_a_new_process_for_all(
    database: Database, first: Dispatcher
) -> None:
    first.quarantine.add("work")
    await first.synchronize()
    for count in (100, 101):
        first.quarantine.note_executions("work", count)
        await first.synchronize()
    late = Dispatcher(database)  # it starts when Triton was started again, and the model ran three times
    assert await late.synchronize() == {"work"}
    late.quarantine.note_executions("work", 3)
    assert await late.synchronize() == set()
    assert await database.fetch("SELECT FROM quarantines WHERE ended_at IS NULL OR reload_until IS NOT NULL") == []


async def test_the_end_of_a_server_ends_the_claims_of_reloads(database: Database, first: Dispatcher) -> None:
    first.quarantine.add("work")
    await first.synchronize()
    first.reloads.running.clear()
    first.quarantine.release_all()
    await first.synchronize()
    await lapse(database, 3600)
    await first.synchronize()
    assert first.reloads.models == ["work"]


async def test_a_reload_waits_until_triton_answers(first: Dispatcher) -> None:
    first.quarantine.add("work")
    first.reloads.is_possible = False
    await first.synchronize()
    assert first.reloads.models == []
    first.reloads.is_possible = True
    await first.synchronize()
    assert first.reloads.models == ["work"]


async def test_the_reload_of_a_dead_dispatcher_is_taken_over(
    database: Database, first: Dispatcher, second: Dispatcher
) -> None:
    """Also if the dead one had ended the quarantine: the model may be unloaded."""
    first.quarantine.add("work")
    await first.synchronize()
    first.quarantine.release("work", unloaded=True)
    for _ in range(2):
        await first.synchronize()
        await lapse(database, 4)
        await first.synchronize()  # this renews the claim
        await second.synchronize()
    assert (first.reloads.models, second.reloads.models) == (["work"], [])
    await lapse(database, 6)
    await second.synchronize()
    assert (first.reloads.models, second.reloads.models) == (["work"], ["work"])


async def test_an_interrupted_reload_is_left_to_another_dispatcher(first: Dispatcher, second: Dispatcher) -> None:
    first.quarantine.add("work")
    await first.synchronize()
    await first.shared.stop()
    await second.synchronize()
    assert second.reloads.models == ["work"]


async def test_a_loaded_model_is_not_loaded_again(database: Database, first: Dispatcher, second: Dispatcher) -> None:
    first.quarantine.add("work")
    await first.synchronize()
    first.quarantine.release("work")
    first.reloads.end("work", None)
    await first.synchronize()
    await lapse(database, 3600)
    await second.synchronize()
    assert (first.reloads.models, second.reloads.models) == (["work"], [])


@pytest.mark.parametrize("unloaded", [False, True])
@pytest.mark.parametrize("pause", [60.0, 3.0])
async def test_a_failed_reload_is_tried_again_after_its_pause(
    database: Database, first: Dispatcher, second: Dispatcher, pause: float, unloaded: bool
) -> None:
    first.quarantine.add("work")
    await first.synchronize()
    if unloaded:
        first.quarantine.release("work", unloaded=True)
    first.reloads.end("work", pause)
    await first.synchronize()
    await lapse(database, pause - 1)
    await second.synchronize()
    assert second.reloads.models == []
    await lapse(database, 2)
    await second.synchronize()
    assert second.reloads.models == ["work"]


async def lapse(database: Database, seconds: float) -> None:
    """Make the claims of reloads this much older."""
    await database.fetch("UPDATE quarantines SET reload_until = reload_until - make_interval(secs => $1)", seconds)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("triton:8001", "triton:8001"),
        ("localhost:8001", "host-1/localhost:8001"),
        ("127.0.0.1:8001", "host-1/127.0.0.1:8001"),
        ("[::1]:8001", "host-1/[::1]:8001"),
    ],
)
def test_a_loopback_address_is_another_server_on_each_host(url: str, name: str) -> None:
    assert name_server(url, "host-1") == name
