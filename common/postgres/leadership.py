"""Elects one process at a time for work that needs doing once, by a lease row in PostgreSQL.

A leader renews its lease. If it dies or freezes, or cannot reach the database, the lease ends and a candidate takes it.
A leader that lacks what its work needs is replaced by a candidate that has it. Without such a candidate it goes on.

For a moment the former and the new leader may both work, so their work must not conflict.
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, NamedTuple

from prometheus_client import Counter, Gauge

from common.errors import CharoniaError, Unavailable
from common.postgres import sql
from common.postgres.database import Database
from common.telemetry.logs import Log
from common.telemetry.outage import Outage

QUERIES = sql.load("common.postgres", "leadership.sql")
LEASE_SECONDS = 4.0
RENEW_SECONDS = 1.0
RETRY_SECONDS = 0.2  # while the database is unavailable
PATIENCE_SECONDS = 2.0  # until a candidate notices that a leader has stopped
MIN_PAUSE_SECONDS = 0.05  # if another candidate was faster by a moment
LATE_SECONDS = LEASE_SECONDS / 2  # of a lease are left: the leader has missed a renewal, and is perhaps dead
LATE_PAUSE_SECONDS = 0.5
STOP_SECONDS = 5.0  # for the work to end; what does not end goes on beside the next leader's
RELEASE_SECONDS = 2.0
UNFIT_SECONDS = 5.0  # a shorter lack of what the work needs, such as a connection that moves, is no reason to take over

FAILED_SECONDS = 5.0  # before a loop that failed runs again

Loop = Callable[[], Coroutine[Any, Any, None]]
Loops = Mapping[str, Loop]

leader = Gauge("charonia_leader", "Whether this process is the leader of the role.", ["role"])
loop_failures = Counter(
    "charonia_leader_loop_failures", "Failures of the leader's loops, other than outages.", ["role", "loop"]
)

log = Log("leader")


class Answer(NamedTuple):
    """Whether this process holds the lease. If not, `seconds` is how long another one holds it."""

    held: bool
    seconds: float

    @property
    def is_late(self) -> bool:
        """Whether another process should have renewed the lease."""
        return not self.held and self.seconds <= LATE_SECONDS


async def ignore(_answer: Answer) -> None:
    """Do nothing with an answer."""


def need_nothing() -> bool:
    """Return that a process is always fit."""
    return True


class LeaseStore:
    """The lease of one role."""

    def __init__(self, database: Database, role: str) -> None:
        """`role` has a row in `leader_leases`."""
        self.role = role
        self._database = database
        self.holder = secrets.token_hex(8)
        """This process, as the lease names it."""

    async def acquire(self, *, is_fit: bool = True) -> Answer:
        """Take or renew the lease, by the database's clock. A process that is fit takes it from one that is not."""
        values = self.role, self.holder, LEASE_SECONDS, is_fit
        found = await self._database.fetch_one(QUERIES["acquire_lease"], *values)
        assert found is not None, "the schema has a row for each role"
        return Answer(found["held"], found["seconds"])

    async def release(self) -> None:
        """Let another process take the lease at once."""
        await self._database.fetch(QUERIES["release_lease"], self.role, self.holder)


class Leadership:
    """Runs loops while this process is the leader of a role."""

    def __init__(
        self,
        store: LeaseStore,
        begin: Callable[[], Loops],
        *,
        patience: float = PATIENCE_SECONDS,
        note_answer: Callable[[Answer], Awaitable[None]] = ignore,
        is_fit: Callable[[], bool] = need_nothing,
    ) -> None:
        """`begin` returns the loops of a new leader. It is called each time that this process becomes one.

        A loop that fails is logged, and runs again after FAILED_SECONDS.

        A candidate asks again when the leader should have renewed the lease, but after `patience` seconds at most: a
        leader that stops releases it. `note_answer` is called with each answer. The database then accepts writes.
        `is_fit` says whether this process has what its work needs. If it has not for UNFIT_SECONDS, one that has may
        take over.
        """
        self._store = store
        self._begin = begin
        self._patience = patience
        self._note_answer = note_answer
        self._is_fit = is_fit
        self._fit_at = time.monotonic()  # a process that starts has time to connect
        self._outage = Outage()
        self._is_leader = leader.labels(store.role)

    async def run(self) -> None:
        """Lead whenever no other process does, until cancelled. Then release the lease."""
        try:
            while True:
                await self._lead(await self._wait_for_lease())
        finally:
            with contextlib.suppress(Unavailable, TimeoutError):  # then it ends by itself
                async with asyncio.timeout(RELEASE_SECONDS):
                    await self._store.release()

    async def _wait_for_lease(self) -> float:
        """Return the end of the lease once this process holds it."""
        while True:
            asked_at = asyncio.get_running_loop().time()
            answer = await self._ask()
            if answer is None:
                await asyncio.sleep(RETRY_SECONDS)
            elif answer.held:
                return asked_at + LEASE_SECONDS
            else:
                await asyncio.sleep(choose_pause(answer.seconds, self._patience))

    async def _lead(self, until: float) -> None:
        """Run the loops until the lease ends. Raise CharoniaError if one of them ends by itself, which is a bug."""
        log.info("leader.began", role=self._store.role)
        self._is_leader.set(1)
        tasks = [asyncio.create_task(self._keep_running(name, loop), name=name) for name, loop in self._begin().items()]
        ended: set[asyncio.Task[None]] = set()
        try:
            async with asyncio.timeout_at(until) as lease:
                tasks.append(renewing := asyncio.create_task(self._renew(lease), name="lease"))
                ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:  # this process's own clock says so, even while a statement hangs
            pass
        finally:
            self._is_leader.set(0)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=STOP_SECONDS)
        for task in ended:
            task.result()
            if task is not renewing:
                raise CharoniaError(f"the loop '{task.get_name()}' ended by itself")
        log.warning("leader.lost", role=self._store.role)

    async def _keep_running(self, name: str, loop: Loop) -> None:
        """Run a loop, and run it again after a pause when it failed: the next leader would meet the same row."""
        failures = loop_failures.labels(self._store.role, name)  # Prometheus sees no increase from nothing
        while True:
            try:
                return await loop()
            except Exception:  # one bad row must not stop the other loops, or one process after the other
                failures.inc()
                log.exception("leader.loop_failed", role=self._store.role, loop=name)
            await asyncio.sleep(FAILED_SECONDS)

    async def _renew(self, lease: asyncio.Timeout) -> None:
        """Renew the lease, and move the end of its timeout. Return when another process has it."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            asked_at = asyncio.get_running_loop().time()
            answer = await self._ask()
            if lease.expired() or (answer is not None and not answer.held):
                return
            if answer is not None:
                lease.reschedule(asked_at + LEASE_SECONDS)

    async def _ask(self) -> Answer | None:
        """Return the database's answer, or None while it is unavailable."""
        try:
            async with asyncio.timeout(LEASE_SECONDS):
                answer = await self._store.acquire(is_fit=self._check_fitness())
                await self._note_answer(answer)
        except (Unavailable, TimeoutError) as error:
            if self._outage.begin():
                log.warning("leader.database_unavailable", role=self._store.role, error=error)
            return None
        self._outage.end()
        return answer

    def _check_fitness(self) -> bool:
        """Return whether this process has what the work needs, or had it a moment ago."""
        now = time.monotonic()
        if self._is_fit():
            self._fit_at = now
        return now - self._fit_at < UNFIT_SECONDS


def choose_pause(seconds: float, patience: float) -> float:
    """Return how long a candidate waits if another process holds the lease for so many seconds."""
    if seconds > LATE_SECONDS:
        return min(max(seconds - LATE_SECONDS, MIN_PAUSE_SECONDS), patience)
    return min(max(seconds, MIN_PAUSE_SECONDS), LATE_PAUSE_SECONDS, patience)
