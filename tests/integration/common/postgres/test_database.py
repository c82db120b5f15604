"""Every call of the pool ends by its deadline, with a result or DatabaseUnavailable."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from common.errors import DatabaseUnavailable, StatementTimeout
from common.postgres import database as module
from common.postgres import session_settings
from common.postgres.database import Database
from tests.integration.proxy import proxied
from tests.integration.waiting import until
from tests.support.telemetry.process_metrics import count

SOON = 12.0  # seconds; more than all deadlines of a call, and far less than it takes without one
STATES = {
    "25006": "failed over to a server that is read only",
    "40001": "in conflict with the recovery of a standby",
    "53100": "the disk is full",
    "53200": "out of memory",
    "53300": "too many connections",
    "57014": "canceled",
    "57P01": "shut down",
    "58030": "input or output failed",
}
LAST_MESSAGE = b"SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0"


@pytest.fixture
def short_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    """For statements that hang. Others still have time. Ask for this before the database."""
    monkeypatch.setattr(module, "STATEMENT_SECONDS", 2.0)


async def ask(database: Database) -> None:
    await database.fetch("SELECT 1")


async def begin(database: Database) -> None:
    async with database.transaction():
        pass


async def fail_soon(call: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(call)
    done, _ = await asyncio.wait([task], timeout=SOON)
    assert done, f"no answer within {SOON:g} s"
    with pytest.raises(DatabaseUnavailable):
        task.result()


async def test_waits_for_a_connection_and_connections_in_use_are_counted(database_url: str) -> None:
    pool = await Database.connect(database_url, size=1, application="tests")
    before = count("charonia_database_wait_seconds_sum") or 0.0
    async with pool.acquire() as connection:
        waiting = asyncio.create_task(ask(pool))
        await asyncio.sleep(0)  # now it waits, so its time includes that of the statement
        await connection.execute("SELECT pg_sleep(0.2)")
        assert (count("charonia_database_connections"), count("charonia_database_connections_limit")) == (1, 1)
    await waiting
    assert (count("charonia_database_wait_seconds_sum") or 0.0) - before >= 0.2
    assert count("charonia_database_connections") == 0
    await pool.close()


@pytest.mark.parametrize("state", STATES, ids=STATES.get)
async def test_errors_of_a_failing_server_are_an_outage(database: Database, state: str) -> None:
    raising = f"DO $$ BEGIN RAISE EXCEPTION USING errcode = '{state}'; END $$"
    with pytest.raises(DatabaseUnavailable):
        await database.fetch(raising)
    with pytest.raises(DatabaseUnavailable):
        async with database.transaction() as connection:
            await connection.execute(raising)
    await ask(database)


@pytest.mark.usefixtures("short_statements")
@pytest.mark.parametrize("call", [ask, begin])
async def test_silent_connections_cost_one_deadline(
    database_url: str, call: Callable[[Database], Coroutine[Any, Any, None]]
) -> None:
    async with proxied(database_url) as proxy:
        database = await Database.connect(proxy.url_of(database_url), size=4, application="tests")
        await asyncio.gather(*(database.fetch("SELECT pg_sleep(0.1)") for _ in range(4)))  # opens all four
        proxy.silence()
        await fail_soon(call(database))
        await call(database)  # on a new connection: the three other old ones are not used
        await database.close()


async def test_no_statement_runs_on_a_connection_that_the_server_has_ended(database_url: str) -> None:
    """The server's last message has come, and it has not closed the connection yet."""
    database = await Database.connect(database_url, size=3, application="tests")
    async with database.acquire() as first, database.acquire() as second, database.acquire() as third:
        protocols = [connection._protocol for connection in (first, second, third)]  # type: ignore[attr-defined]
    for protocol in protocols:
        protocol.data_received(b"E" + (len(LAST_MESSAGE) + 4).to_bytes(4) + LAST_MESSAGE)
    await ask(database)
    await database.close()


LOCK_BOTH = """
CREATE FUNCTION lock_both() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  LOCK TABLE tenants;
  LOCK TABLE webhooks;
END
$$
"""
IS_WAITING = "SELECT count(*) FROM pg_locks WHERE relation = 'webhooks'::regclass AND NOT granted"


async def test_a_statement_that_met_a_deadlock_begins_again(database: Database, database_url: str) -> None:
    """A migration may lock tables in another order than a service does."""
    owner = await asyncpg.connect(database_url, server_settings={"deadlock_timeout": "1min"})  # so it is not the victim
    await owner.execute(LOCK_BOTH)
    async with owner.transaction():
        await owner.execute("LOCK TABLE webhooks")
        task = asyncio.create_task(database.fetch("SELECT lock_both()"))

        async def is_waiting() -> bool:
            return bool(await owner.fetchval(IS_WAITING))

        await until(is_waiting, "the statement waits for the second lock")
        await owner.execute("LOCK TABLE tenants")
    assert len(await task) == 1
    await owner.close()


@pytest.mark.usefixtures("short_statements")
async def test_a_slow_statement_closes_no_other_connection(database: Database) -> None:
    async def find_sessions() -> set[int]:
        found = await asyncio.gather(*(database.fetch("SELECT pg_backend_pid(), pg_sleep(0.1)") for _ in range(4)))
        return {rows[0][0] for rows in found}

    before = await find_sessions()
    with pytest.raises(StatementTimeout):
        await database.fetch("SELECT pg_sleep(60)")
    assert len(before & await find_sessions()) >= 3


@pytest.mark.usefixtures("short_statements")
async def test_a_silent_transaction_has_a_deadline(database_url: str) -> None:
    async with proxied(database_url) as proxy:
        database = await Database.connect(proxy.url_of(database_url), application="tests")

        async def fall_silent() -> None:
            async with database.transaction() as connection:
                proxy.silence()
                await connection.fetch("SELECT 1")

        await fail_soon(fall_silent())
        await begin(database)
        await database.close()


async def test_a_transaction_of_many_statements_has_one_deadline(database: Database) -> None:
    async def dawdle() -> None:
        async with database.transaction(1.0) as connection:
            for _ in range(100):
                await connection.execute("SELECT pg_sleep(0.2)")  # each well within its own deadline

    await fail_soon(dawdle())
    await begin(database)


async def test_a_check_on_a_silent_connection_ends_soon(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STATEMENT_SECONDS", 60.0)
    monkeypatch.setattr(module, "CHECK_SECONDS", 0.2)
    monkeypatch.setattr(module, "RELEASE_SECONDS", 0.2)
    async with proxied(database_url) as proxy:
        database = await Database.connect(proxy.url_of(database_url), application="tests")
        await ask(database)
        proxy.silence()
        assert not await asyncio.wait_for(database.check(), 4)  # without a deadline for the release it would be 5
        await ask(database)
        await database.close()


async def test_a_caller_that_is_cancelled_twice_leaves_no_error_behind(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second cancel comes while the server does not confirm that it has cancelled the statement."""
    monkeypatch.setattr(module, "RELEASE_SECONDS", 1.0)
    lost: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: lost.append(context))
    async with proxied(database_url) as proxy:
        database = await Database.connect(proxy.url_of(database_url), size=1, application="tests")
        await ask(database)
        proxy.cut_off()
        call = asyncio.create_task(ask(database))
        await until(lambda: count("charonia_database_connections") == 1, "the statement is sent")
        for _ in range(2):
            call.cancel()
            await asyncio.wait([call], timeout=0.1)  # meanwhile it begins to give the connection back
        await until(lambda: database._pool.get_size() == 0, "the connection is closed")
        await database.close()
    gc.collect()
    asyncio.get_running_loop().set_exception_handler(None)
    assert lost == []


async def test_an_abandoned_transaction_gives_its_locks_back(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if its process had frozen, or its machine were cut off."""
    monkeypatch.setattr(session_settings, "ABANDONED", {"idle_in_transaction_session_timeout": "100ms"})
    frozen = await Database.connect(database_url, application="tests")
    monkeypatch.undo()
    other = await Database.connect(database_url, application="tests")

    async def hold_a_lock() -> None:
        async with frozen.transaction() as connection:
            await connection.execute("LOCK TABLE tenants")
            await other.fetch("SELECT FROM tenants")  # which waits for the lock
            await connection.execute("SELECT 1")

    with pytest.raises(DatabaseUnavailable):
        await hold_a_lock()
    await ask(frozen)
    await frozen.close()
    await other.close()


SHOWN = {
    "idle_in_transaction_session_timeout": "5s",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10000",
}


async def test_sessions_notice_lost_clients(database_url: str) -> None:
    services = [await Database.connect(database_url, application="tests", relaxed=each) for each in (False, True)]
    for database in services:
        assert {name: (await database.fetch(f"SHOW {name}"))[0][0] for name in SHOWN} == SHOWN
        await database.close()


@pytest.mark.parametrize(
    ("of_operator", "shown"),
    [("off", "on"), ("local", "on"), ("remote_write", "on"), ("on", "on"), ("remote_apply", "remote_apply")],
)
async def test_commits_are_durable_and_never_less_than_an_operator_wants(
    database_url: str, of_operator: str, shown: str
) -> None:
    owner = await asyncpg.connect(database_url)
    await owner.execute(f'ALTER DATABASE "{urlsplit(database_url).path[1:]}" SET synchronous_commit = {of_operator}')
    await owner.close()
    for relaxed, expected in ((False, shown), (True, "off")):
        database = await Database.connect(database_url, application="tests", relaxed=relaxed)
        assert (await database.fetch("SHOW synchronous_commit"))[0][0] == expected
        await database.close()
