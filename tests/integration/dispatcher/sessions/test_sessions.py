"""The lock of a session ends with its connection. Jobs carry the session while they run."""

import asyncio
from uuid import UUID

import pytest

from common.errors import DatabaseUnavailable
from common.jobs.end import end_jobs
from common.jobs.requeue import requeue_jobs
from common.jobs.rescue import find_orphaned
from common.postgres import sql
from common.postgres.database import Database
from services.dispatcher.sessions.session_lock import SessionLock
from services.dispatcher.sessions.store import SessionStore
from tests.integration.jobs import LEASE, new_end, new_requeue, submit, take
from tests.integration.stores import Stores
from tests.integration.waiting import until

FIRST, SECOND = 2**63 - 1, 5
QUERIES = sql.load("services.dispatcher.sessions")
END_LOCKS = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1"


async def read_session(database: Database, job: UUID) -> int | None:
    found = await database.fetch_one("SELECT session FROM jobs WHERE id = $1", job)
    assert found is not None
    session: int | None = found["session"]
    return session


async def test_a_lock_is_held_as_long_as_its_connection_lives(database: Database) -> None:
    store = SessionStore(database)
    assert await store.find_free_sessions(FIRST) == {FIRST}
    async with store.lock(FIRST) as locked, store.lock(FIRST):  # the second one as after a lost connection
        assert locked is not None
        assert locked.seconds_up > 0
        assert await store.find_free_sessions(FIRST) == set()
        assert await store.find_free_sessions(SECOND) == {SECOND}
        holding = asyncio.create_task(locked.hold())
        await database.fetch(END_LOCKS)
        async with asyncio.timeout(20):
            with pytest.raises(DatabaseUnavailable):
                async with store.lock(SECOND):
                    await holding

    async def free() -> bool:
        try:
            return await store.find_free_sessions(FIRST) == {FIRST}
        except DatabaseUnavailable:  # the statement was on its way while the server ended its connection
            return False

    await until(free, "both connections have ended")


async def test_a_process_takes_its_lock_again(database: Database) -> None:
    store = SessionStore(database)
    lock = SessionLock(store, LEASE)
    running = asyncio.create_task(lock.run())

    async def held() -> bool:
        return lock.session is not None and await store.find_free_sessions(lock.session) == set()

    try:
        await until(held, "the lock is held")
        session = lock.session
        await database.fetch(END_LOCKS)
        await until(lambda: lock.session is None, "the process notices the loss")
        await until(held, "the lock is held again")
        assert lock.session == session
        assert not lock.is_steady
    finally:
        running.cancel()
        await asyncio.wait([running])


async def test_a_lock_behind_a_pooler_is_refused(database: Database) -> None:
    """A pooler tells its clients another process id than the server's, here 0."""
    answer = await database.fetch_one(QUERIES["lock_session"], FIRST, 0)
    assert answer is not None
    assert answer["is_pooled"]
    assert await SessionStore(database).find_free_sessions(FIRST) == {FIRST}


async def test_a_job_carries_its_session_while_it_runs(database: Database, tenant: UUID) -> None:
    stores = Stores(database)
    for _ in range(3):
        await submit(database, tenant)
    first, second = await take(database, 2, session=SECOND)
    (other,) = await take(database, 1)
    assert [await read_session(database, job.id) for job in (first, second, other)] == [SECOND, SECOND, None]
    assert await stores.sessions.find_free_sessions(FIRST) == {FIRST, SECOND}
    found = await find_orphaned(database, [SECOND], 10)
    assert {job.id for job, _ in found} == {first.id, second.id}

    await end_jobs(database, [new_end(first)])
    await requeue_jobs(database, [new_requeue(second)])
    assert [await read_session(database, job.id) for job in (first, second)] == [None, None]
    assert await stores.sessions.find_free_sessions(FIRST) == {FIRST}
