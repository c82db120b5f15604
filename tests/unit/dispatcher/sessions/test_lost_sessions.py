"""A session is lost when nobody held its lock for two seconds, and the locks of living processes are known to exist."""

from services.dispatcher.sessions.lost_sessions import LostSessions
from services.dispatcher.sessions.session_lock import SessionLock
from services.dispatcher.sessions.store import SessionStore
from tests.unit.clock import Clock

INTERVAL = 0.5
OWN, OTHER = 1, 2


class FakeStore(SessionStore):
    """A server with free sessions."""

    def __init__(self, free: set[int]) -> None:
        self.free = free

    async def find_free_sessions(self, own: int) -> set[int]:
        assert own == OWN
        return self.free


class FakeLock(SessionLock):
    """The lock of the process that searches."""

    session: int | None = OWN
    is_steady = True

    def __init__(self) -> None:
        pass


class World:
    def __init__(self, *free: int) -> None:
        self.store, self.lock, self.clock = FakeStore(set(free)), FakeLock(), Clock()
        self.lost = LostSessions(self.store, self.lock, INTERVAL, self.clock)

    async def pass_by(self, seconds: float) -> list[int]:
        """Search every half second for this long. Return what the last search found."""
        found: list[int] = []
        for _ in range(round(seconds / INTERVAL)):
            found = await self.lost.find()
            self.clock.now += INTERVAL
        return found


async def test_a_session_is_lost_after_two_seconds() -> None:
    world = World(OTHER)
    assert await world.pass_by(2.0) == []
    assert await world.pass_by(INTERVAL) == [OTHER]
    assert await world.pass_by(INTERVAL) == [OTHER], "while it has jobs"


async def test_a_lock_that_is_taken_again_is_not_lost() -> None:
    world = World(OTHER)
    await world.pass_by(2.0)
    world.store.free = set()
    await world.pass_by(INTERVAL)
    world.store.free = {OTHER}
    assert await world.pass_by(2.0) == []


async def test_no_session_is_lost_while_locks_may_be_missing() -> None:
    world = World(OTHER)
    world.lock.is_steady = False
    assert await world.pass_by(60.0) == []
    world.lock.is_steady = True
    assert await world.pass_by(2.0) == []
    assert await world.pass_by(INTERVAL) == [OTHER]


async def test_a_server_without_the_own_lock_proves_nothing() -> None:
    world = World(OWN, OTHER)
    assert await world.pass_by(60.0) == []


async def test_without_a_session_of_its_own_a_process_judges_nobody() -> None:
    world = World(OTHER)
    world.lock.session = None
    assert await world.pass_by(60.0) == []


async def test_what_was_seen_before_a_freeze_does_not_count() -> None:
    world = World(OTHER)
    await world.pass_by(INTERVAL)
    world.clock.now += 20.0
    assert await world.pass_by(2.0) == []
    assert await world.pass_by(INTERVAL) == [OTHER]
