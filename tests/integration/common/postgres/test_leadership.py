"""One of several candidates leads. Another takes over soon after the leader stops, dies or freezes."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable

import pytest

from common.errors import DatabaseUnavailable
from common.postgres import leadership
from common.postgres.database import Database
from common.postgres.leadership import (
    LEASE_SECONDS,
    Answer,
    Leadership,
    LeaseStore,
    Loops,
)
from tests.integration.transactions import OpenTransaction
from tests.support.waiting import eventually

ROLE = "maintenance"
TAKEOVER_SECONDS = 15.0
RELEASE_SECONDS = 10.0
LONG_LEASE_SECONDS = 60.0
AHEAD = "UPDATE leader_leases SET expires_at = expires_at + interval '1 hour' WHERE role = $1"


class Line(LeaseStore):
    """A store whose connection to the database may hang or break, as that of a process that is cut off or killed."""

    state = "up"

    async def acquire(self, *, is_fit: bool = True) -> Answer:
        await self._pass()
        return await super().acquire(is_fit=is_fit)

    async def release(self) -> None:
        await self._pass()
        await super().release()

    async def _pass(self) -> None:
        if self.state == "hangs":
            await asyncio.Event().wait()
        if self.state == "broken":
            raise DatabaseUnavailable


class Candidate:
    def __init__(self, database: Database) -> None:
        self.line = Line(database, ROLE)
        self.works = False
        self.began = 0
        self.is_fit = True
        self._task = asyncio.create_task(Leadership(self.line, self._begin, is_fit=lambda: self.is_fit).run())

    def _begin(self) -> Loops:
        self.began += 1
        return {"work": self._work}

    async def _work(self) -> None:
        self.works = True
        try:
            await asyncio.Event().wait()
        finally:
            self.works = False

    async def is_idle(self) -> bool:
        return not self.works

    async def stop(self) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task


@pytest.fixture
def long_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody takes over because a lease ends. Ask for this before the candidates."""
    monkeypatch.setattr(leadership, "LEASE_SECONDS", LONG_LEASE_SECONDS)
    monkeypatch.setattr(leadership, "RELEASE_SECONDS", RELEASE_SECONDS)


@pytest.fixture
def longer_lease(monkeypatch: pytest.MonkeyPatch) -> float:
    """Leases of so many seconds, so that several renewals fit into one also on a busy machine. Ask for this first."""
    monkeypatch.setattr(leadership, "LEASE_SECONDS", seconds := 3 * LEASE_SECONDS)
    return seconds


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> float:
    """Renewals after so many seconds. Ask for this before the candidates."""
    monkeypatch.setattr(leadership, "RENEW_SECONDS", seconds := 0.3)
    return seconds


@pytest.fixture
async def candidates(database: Database) -> AsyncIterator[Callable[[], Candidate]]:
    """Add a candidate."""
    added: list[Candidate] = []

    def add() -> Candidate:
        added.append(Candidate(database))
        return added[-1]

    yield add
    await asyncio.gather(*(each.stop() for each in added))


@pytest.fixture
async def leader(candidates: Callable[[], Candidate]) -> Candidate:
    """The only candidate so far, which works at once."""
    candidate = candidates()
    await wait_for_work(candidate, within=RELEASE_SECONDS)
    return candidate


@pytest.fixture
async def second(leader: Candidate, candidates: Callable[[], Candidate]) -> Candidate:
    return candidates()


async def wait_for_work(candidate: Candidate, *, within: float) -> None:
    async def works() -> bool:
        return candidate.works

    await eventually(works, "the candidate works", within=within)


async def ask(database: Database) -> Answer:
    """Ask as another process does."""
    return await LeaseStore(database, ROLE).acquire()


async def wait_for_fitness(database: Database, *, is_fit: bool) -> None:
    async def poll() -> bool:
        row = await database.fetch_one("SELECT is_fit FROM leader_leases WHERE role = $1", ROLE)
        return row is not None and row["is_fit"] is is_fit

    await eventually(poll, f"the lease says that the fitness of its holder is {is_fit}")


@pytest.mark.usefixtures("often")
async def test_a_second_candidate_waits(
    longer_lease: float, database: Database, leader: Candidate, second: Candidate
) -> None:
    before = longer_lease

    async def is_renewed() -> bool:
        nonlocal before
        earlier, answer = before, await ask(database)
        assert not answer.held
        before = answer.seconds
        return before > earlier  # without a renewal less is left each time

    await eventually(is_renewed, "the lease is renewed", within=longer_lease)
    assert (leader.works, second.works, second.began) == (True, False, 0)


@pytest.mark.usefixtures("long_lease")
async def test_another_takes_over_soon_after_a_clean_stop(leader: Candidate, second: Candidate) -> None:
    await leader.stop()
    await wait_for_work(second, within=RELEASE_SECONDS)
    assert not leader.works


@pytest.mark.parametrize("state", ["hangs", "broken"])
async def test_a_leader_that_is_cut_off_stops_before_another_begins(
    leader: Candidate, second: Candidate, state: str
) -> None:
    leader.line.state = state

    async def takes_over() -> bool:
        assert not (leader.works and second.works)
        return second.works

    await eventually(takes_over, "the second one works", within=TAKEOVER_SECONDS)
    leader.line.state = "up"
    await second.stop()
    await wait_for_work(leader, within=LEASE_SECONDS + RELEASE_SECONDS)  # its last question may hang until then
    assert leader.began == 2


async def test_a_short_outage_ends_no_leadership(
    longer_lease: float, often: float, leader: Candidate, second: Candidate, database: Database
) -> None:
    leader.line.state = "broken"

    async def is_late() -> bool:
        return (await ask(database)).seconds < longer_lease - 3 * often

    async def is_renewed() -> bool:
        return not await is_late()

    await eventually(is_late, "renewals are missing", within=longer_lease)
    leader.line.state = "up"
    await eventually(is_renewed, "the lease is renewed", within=longer_lease)
    assert (leader.works, leader.began, second.began) == (True, 1, 0)


@pytest.mark.usefixtures("longer_lease", "often")
async def test_a_leader_without_what_its_work_needs_is_replaced(
    leader: Candidate, second: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leadership, "UNFIT_SECONDS", 0.5)
    leader.is_fit = False
    await wait_for_work(second, within=TAKEOVER_SECONDS)
    await eventually(leader.is_idle, "the former leader has stopped", within=TAKEOVER_SECONDS)
    assert (leader.began, second.began) == (1, 1)


@pytest.mark.usefixtures("longer_lease")
async def test_without_a_better_candidate_a_leader_goes_on(
    leader: Candidate, second: Candidate, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leadership, "UNFIT_SECONDS", 0.01)
    leader.is_fit = second.is_fit = False
    await wait_for_fitness(database, is_fit=False)
    assert not (await LeaseStore(database, ROLE).acquire(is_fit=False)).held
    leader.is_fit = True
    await wait_for_fitness(database, is_fit=True)
    assert (leader.works, leader.began, second.began) == (True, 1, 0)


@pytest.mark.usefixtures("longer_lease")
async def test_the_roles_have_leaders_of_their_own(database: Database, leader: Candidate) -> None:
    assert (await LeaseStore(database, "notifier").acquire()).held
    assert leader.works


@pytest.mark.usefixtures("longer_lease")
async def test_the_clock_of_a_process_has_no_effect(
    database: Database, leader: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time
    for skew in (-3600.0, 3600.0):
        monkeypatch.setattr(time, "time", lambda skew=skew: now() + skew)
        assert not (await ask(database)).held
    assert leader.works


async def test_a_clock_of_the_database_that_was_set_back_does_not_prolong_a_lease(database: Database) -> None:
    assert (await ask(database)).held
    await database.fetch(AHEAD, ROLE)
    assert (await ask(database)).held


async def test_a_candidate_that_asked_before_a_renewal_takes_no_lease(database: Database) -> None:
    """Its transaction began before that of the leader, so the lease ends later than a new one of its own would."""
    leader = LeaseStore(database, ROLE)
    async with database.transaction() as connection:
        await connection.execute("SELECT now()")
        assert (await leader.acquire()).held
        assert not (await LeaseStore(OpenTransaction(connection), ROLE).acquire()).held
    assert (await leader.acquire()).held


async def test_a_candidate_that_stops_ends_no_lease_of_another(database: Database) -> None:
    leader, candidate = LeaseStore(database, ROLE), LeaseStore(database, ROLE)
    assert (await leader.acquire()).held
    await candidate.release()
    assert not (await candidate.acquire()).held
    await leader.release()
    assert (await candidate.acquire()).held
