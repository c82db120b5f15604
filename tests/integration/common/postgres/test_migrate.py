"""Migrating a database, and the schemas that services refuse."""

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import httpx
import pytest

from common.errors import CharoniaError, SchemaError, SettingsError
from common.postgres import migrate as module
from common.postgres.database import Database
from common.postgres.migrate import main, migrate
from common.postgres.schema_version import Migration, list_migrations, parse_migration
from common.postgres.session_settings import ABANDONED
from deploy.local.processes.ports import free_ports
from tests.integration.proxy import HOST, Proxy
from tests.support.database.temporary import Databases

OURS = list_migrations()
NEXT = OURS[-1].number + 1
DEADLINE_SECONDS = 10.0  # for what waits for a lock
SERVICES = ["services.gateway", "services.dispatcher", "services.notifier"]
CONCURRENT_INDEX = f"""-- compatible with: {NEXT - 1}
-- migrate: no transaction
CREATE OR REPLACE FUNCTION one() RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
  RETURN 1;
END
$$;
DROP INDEX CONCURRENTLY IF EXISTS jobs_by_worker;
CREATE INDEX CONCURRENTLY jobs_by_worker ON live_jobs (worker);
"""
ADD_COLUMN = f"""-- compatible with: {NEXT - 1}
ALTER TABLE tenants ADD note text;
"""
SHOWN = "SELECT " + ", ".join(f"current_setting('{name}') AS {name}" for name in ABANDONED)
DROP_COLUMN = "ALTER TABLE tenants DROP COLUMN max_queued;"

Connection = asyncpg.Connection  # generic in its stubs only


@pytest.fixture
async def empty_url(databases: Databases) -> AsyncIterator[str]:
    async with databases.create() as url:
        yield url


@pytest.fixture
async def session(database_url: str) -> "AsyncIterator[Connection[asyncpg.Record]]":
    """A connection to a migrated database."""
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


async def migrate_further(url: str, text: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Migrate with one migration more than this version has."""
    newer = [*OURS, parse_migration(f"{NEXT:04}_more.sql", text)]
    with monkeypatch.context() as patch:
        patch.setattr(module, "list_migrations", lambda: newer)
        return await migrate(url)


async def connect(url: str) -> None:
    """Connect as a service does."""
    await (await Database.connect(url, application="tests")).close()


def start_service(service: str, url: str) -> "subprocess.CompletedProcess[str]":
    environment = {
        "CHARONIA_DATABASE_URL": url,
        "CHARONIA_AMQP_URL": "amqp://127.0.0.1:1/",
        "CHARONIA_TRITON_URL": "127.0.0.1:1",
        "CHARONIA_ENCRYPTION_KEYS": "A" * 43 + "=",
        "CHARONIA_URL_KEYS": "A" * 43 + "=",
        "CHARONIA_STORE_URL": Path(tempfile.gettempdir(), "charonia-store").as_uri(),
        "CHARONIA_PORT": "1",
    }
    command = [sys.executable, "-m", service]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


async def test_everything_is_applied_once_and_in_order(empty_url: str) -> None:
    assert await migrate(empty_url) == [migration.name for migration in OURS]
    assert await migrate(empty_url) == []


async def test_concurrent_runs_wait_for_each_other(empty_url: str) -> None:
    applied = await asyncio.gather(*(migrate(empty_url) for _ in range(4)))
    assert sorted(applied) == [[], [], [], [migration.name for migration in OURS]]


async def test_a_migration_waits_no_longer_for_another_than_it_may(
    session: "Connection[asyncpg.Record]", database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MIGRATOR_LOCK_SECONDS", 0.3)
    await session.execute("SELECT pg_advisory_lock($1)", module.MIGRATOR_LOCK)
    with pytest.raises(CharoniaError, match="another migration has been running"):
        await migrate(database_url)


@pytest.mark.parametrize("change", [{"username": "nobody"}, {"path": "/nowhere"}], ids=["user", "database"])
def test_a_refused_login_names_the_variable(
    empty_url: str, change: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = httpx.URL(empty_url).copy_with(**change)
    monkeypatch.setenv("CHARONIA_DATABASE_URL", str(url))
    assert main() == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("migrate: CHARONIA_DATABASE_URL is wrong: ")
    with pytest.raises(SettingsError, match=r"^CHARONIA_DATABASE_URL is wrong: "):
        asyncio.run(Database.connect(str(url), application="tests"))


async def test_a_migration_that_fails_leaves_nothing_and_is_tried_again(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(asyncpg.UndefinedColumnError):
        await migrate_further(empty_url, "CREATE TABLE half (id integer); SELECT nonsense", monkeypatch)
    connection = await asyncpg.connect(empty_url)
    try:
        assert await connection.fetchval("SELECT to_regclass('half')") is None
    finally:
        await connection.close()
    assert await migrate(empty_url) == []


async def test_an_index_is_created_concurrently_while_another_migrator_waits(
    session: "Connection[asyncpg.Record]", database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = [*OURS, parse_migration(f"{NEXT:04}_more.sql", CONCURRENT_INDEX)]
    monkeypatch.setattr(module, "list_migrations", lambda: newer)
    assert sorted(await asyncio.gather(migrate(database_url), migrate(database_url))) == [[], [f"{NEXT:04}_more.sql"]]
    valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'jobs_by_worker'::regclass"
    assert await session.fetchval(valid) is True


async def test_a_concurrent_index_that_failed_is_created_again(
    session: "Connection[asyncpg.Record]", database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = CONCURRENT_INDEX.replace("CREATE INDEX", "CREATE UNIQUE INDEX").replace(
        "live_jobs (worker)", "tenants ((true))"
    )
    add = (
        "INSERT INTO tenants (id, name, webhook_secret) SELECT gen_random_uuid(), name, '' FROM unnest($1::text[]) name"
    )
    await session.execute(add, ["a", "b"])
    with pytest.raises(asyncpg.UniqueViolationError):
        await migrate_further(database_url, text, monkeypatch)
    await session.execute("DELETE FROM tenants")
    assert await migrate_further(database_url, text, monkeypatch) == [f"{NEXT:04}_more.sql"]


async def test_each_migration_without_a_transaction_can_run_again(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the next one runs, as after a failure."""
    repeatable = [count for count, each in enumerate(OURS, 1) if not each.in_transaction]
    assert repeatable
    for count in repeatable:
        monkeypatch.setattr(module, "list_migrations", lambda count=count: OURS[:count])
        await migrate(empty_url)
        connection = await asyncpg.connect(empty_url)
        await connection.execute("DELETE FROM schema_migrations WHERE number = $1", OURS[count - 1].number)
        await connection.close()
        assert await migrate(empty_url) == [OURS[count - 1].name]


async def test_a_migration_gives_up_a_lock_that_stays_held(
    session: "Connection[asyncpg.Record]", database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("LOCK_TIMEOUT", 0.1), ("LOCK_PAUSE", 0.0), ("LOCK_ATTEMPTS", 2)):
        monkeypatch.setattr(module, name, value)
    async with session.transaction():
        await session.execute("LOCK TABLE tenants IN ACCESS SHARE MODE")
        with pytest.raises(CharoniaError, match=r"_more.sql did not get a lock in 2 attempts of 0.1 s\. End the "):
            async with asyncio.timeout(DEADLINE_SECONDS):
                await migrate_further(database_url, ADD_COLUMN, monkeypatch)
    assert await migrate_further(database_url, ADD_COLUMN, monkeypatch) == [f"{NEXT:04}_more.sql"]


async def test_a_migration_tries_again_after_a_deadlock_with_services(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("LOCK_PAUSE", 0.0), ("LOCK_ATTEMPTS", 2)):
        monkeypatch.setattr(module, name, value)
    deadlock = "DO $$ BEGIN RAISE EXCEPTION USING errcode = 'deadlock_detected'; END $$;"
    with pytest.raises(CharoniaError, match=r"_more.sql did not get a lock in 2 attempts"):
        await migrate_further(database_url, deadlock, monkeypatch)


async def test_a_migration_tries_again_for_a_lock(
    session: "Connection[asyncpg.Record]", database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("LOCK_TIMEOUT", 0.1), ("LOCK_PAUSE", 0.0), ("LOCK_ATTEMPTS", 100)):
        monkeypatch.setattr(module, name, value)
    failed = asyncio.Event()
    apply = module._apply

    async def observe(connection: "Connection[asyncpg.Record]", migration: Migration) -> None:
        try:
            await apply(connection, migration)
        except asyncpg.LockNotAvailableError:
            failed.set()
            raise

    monkeypatch.setattr(module, "_apply", observe)
    async with session.transaction():
        await session.execute("LOCK TABLE tenants IN ACCESS SHARE MODE")
        migrating = asyncio.create_task(migrate_further(database_url, ADD_COLUMN, monkeypatch))
        async with asyncio.timeout(DEADLINE_SECONDS):
            await failed.wait()
    assert await migrating == [f"{NEXT:04}_more.sql"]


async def test_a_migration_whose_machine_vanishes_gives_its_locks_back(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its transaction locks tables. As a service does: see test_database.py."""
    await migrate_further(database_url, f"CREATE TABLE shown AS {SHOWN}", monkeypatch)
    connection = await asyncpg.connect(database_url)
    assert [tuple(row) for row in await connection.fetch("TABLE shown")] == [("5s", "5", "2", "3", "10000")]
    await connection.close()


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_refuses_an_older_schema(empty_url: str, service: str) -> None:
    done = start_service(service, empty_url)
    assert done.returncode == SchemaError.exit_code == 3
    *_, last = done.stderr.splitlines()
    name = service.removeprefix("services.")
    assert last == (
        f"{name}: database schema: found version 0, expected {OURS[-1].number}. "
        "Run `python -m common.postgres.migrate` of this version, then start the service again."
    )


async def test_an_additive_migration_is_accepted_by_older_services(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrate_further(database_url, ADD_COLUMN, monkeypatch)
    await connect(database_url)
    assert await migrate(database_url) == []


async def test_an_incompatible_migration_is_refused_by_older_services(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrate_further(database_url, DROP_COLUMN, monkeypatch)
    expected = f"found version {NEXT}, which needs services with version {NEXT} or later; this one has {NEXT - 1}"
    with pytest.raises(SchemaError, match=expected):
        await connect(database_url)
    with pytest.raises(SchemaError, match=expected):
        await migrate(database_url)


async def test_an_incompatible_migration_stops_no_service_that_runs(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = await Database.connect(database_url, application="tests")
    try:
        async with database.acquire():
            await migrate_further(database_url, DROP_COLUMN, monkeypatch)
            assert await database.check()  # on a second connection
    finally:
        await database.close()


async def test_a_schema_is_refused_once_the_server_is_up(empty_url: str) -> None:
    (port,) = free_ports(1)
    server = urlsplit(empty_url)
    database = await Database.connect(
        f"postgresql://{server.username}:{server.password}@{HOST}:{port}{server.path}", application="tests"
    )
    assert not await database.check()
    assert server.port is not None
    proxy = Proxy(server.port)
    async with await asyncio.start_server(proxy.accept, HOST, port):
        with pytest.raises(SchemaError):
            await database.fetch("SELECT 1")
        assert not await database.check()
    await database.close()


async def test_a_database_from_before_the_first_release_is_refused(
    empty_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    connection = await asyncpg.connect(empty_url)
    await connection.execute("CREATE TABLE schema_migrations (name text PRIMARY KEY, applied_at timestamptz)")
    await connection.close()
    with pytest.raises(SchemaError, match="before the first release"):
        await connect(empty_url)
    monkeypatch.setenv("CHARONIA_DATABASE_URL", empty_url)
    assert await asyncio.to_thread(main) == 3
    assert "Create a new database" in capsys.readouterr().err
