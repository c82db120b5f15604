"""Migrate the database to the newest schema: `python -m common.postgres.migrate`.

Each file of migrations/ runs once, in the order of the numbers. A lock lets one migration run at a time.

A file runs in a transaction of its own, unless it says `-- migrate: no transaction`. Such a file may run again after it
failed half-way, so each of its statements must be repeatable. Drop an index before you create it: a failed CREATE INDEX
CONCURRENTLY leaves an invalid index behind.

A statement waits for a lock no longer than LOCK_TIMEOUT. While it waits, all later statements on the table wait behind
it. Then the file is tried again, a few times, as after a deadlock. A file may set another `lock_timeout` for itself.

The schema has a role for each service. With CHARONIA_ROLE_PASSWORDS=gateway=secret,dispatcher=… roles may log in with
these passwords. Without it, let them log in yourself: ALTER ROLE charonia_gateway LOGIN PASSWORD …
"""

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Mapping

import asyncpg
import msgspec

from common.errors import CharoniaError, SettingsError
from common.postgres.hosts import ACCESS_ERRORS, CONNECT_ERRORS, Hosts
from common.postgres.roles import parse_passwords, set_passwords
from common.postgres.schema_version import Migration, check_applied, list_migrations, read_applied
from common.postgres.session_settings import basic_settings
from common.settings import DatabaseUrl, load

LOCK_TIMEOUT = 3.0  # seconds
LOCK_ATTEMPTS = 5
LOCK_PAUSE = 2.0  # seconds between two of them
MIGRATOR_LOCK = 0x43484152  # "CHAR": any number that nobody else locks
MIGRATOR_LOCK_SECONDS = 120.0
NO_PASSWORDS: Mapping[str, str] = {}
_POLL_SECONDS = 0.1
_LEDGER = """
CREATE TABLE IF NOT EXISTS schema_migrations (
  number integer PRIMARY KEY,
  name text NOT NULL,
  compatible_with integer NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT now()
)
"""
_RECORD = "INSERT INTO schema_migrations (number, name, compatible_with) VALUES ($1, $2, $3)"


class MigrationSettings(msgspec.Struct, frozen=True):
    """The settings of this command."""

    database_url: DatabaseUrl
    """The database, with the login of its owner. The services have other ones."""
    role_passwords: tuple[str, ...] = ()
    """Passwords of the roles of services, which may then log in: `gateway=…,dispatcher=…,notifier=…,operator=…`. A
    password may not contain a comma. Roles that are not named stay as they are."""


async def migrate(url: str, passwords: Mapping[str, str] = NO_PASSWORDS) -> list[str]:
    """Apply the migrations that are missing. Return their names. Give roles of services these passwords.

    Raise SchemaError for a schema that this version cannot use, CharoniaError for a lock that stays held.
    """
    connection = await Hosts(url).connect(timeout=10, server_settings=basic_settings("charonia-migrate"))
    try:
        await _lock_migrators(connection)
        await connection.execute(_LEDGER)
        applied, names = await read_applied(connection), []
        migrations = list_migrations()
        for migration in migrations:
            if migration.number not in applied:
                await _apply_patiently(connection, migration)
                applied[migration.number] = migration.compatible_with
                names.append(migration.name)
        check_applied(applied, migrations)
        await set_passwords(connection, passwords)
        return names
    finally:
        await connection.close(timeout=5)


async def _lock_migrators(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Wait until no other migration runs.

    Ask again and again: CREATE INDEX CONCURRENTLY waits for every running statement, also for one that waits for this
    lock.
    """
    try:
        async with asyncio.timeout(MIGRATOR_LOCK_SECONDS):
            while True:
                if await connection.fetchval("SELECT pg_try_advisory_lock($1)", MIGRATOR_LOCK):
                    return
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError as error:
        raise CharoniaError(
            f"another migration has been running for {MIGRATOR_LOCK_SECONDS:g} s. Wait until it ends, then try again."
        ) from error


async def _apply_patiently(connection: "asyncpg.Connection[asyncpg.Record]", migration: Migration) -> None:
    for attempt in range(1, LOCK_ATTEMPTS + 1):
        try:
            await _apply(connection, migration)
            return
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError) as error:
            if attempt == LOCK_ATTEMPTS:
                raise CharoniaError(
                    f"{migration.name} did not get a lock in {LOCK_ATTEMPTS} attempts of {LOCK_TIMEOUT:g} s. "
                    "End the transaction that holds the table (see pg_stat_activity), then try again."
                ) from error
            await asyncio.sleep(LOCK_PAUSE)


async def _apply(connection: "asyncpg.Connection[asyncpg.Record]", migration: Migration) -> None:
    await connection.execute(f"SET lock_timeout = {round(LOCK_TIMEOUT * 1000)}")
    async with connection.transaction() if migration.in_transaction else contextlib.nullcontext():
        if migration.in_transaction:
            await connection.execute(migration.statements)
        else:  # several statements in one call would be a transaction
            for statement in _split(migration.statements):
                await connection.execute(statement)
        await connection.execute(_RECORD, migration.number, migration.name, migration.compatible_with)


def _split(statements: str) -> list[str]:
    """Return the statements of a file, each of which ends with its line. Leave out comments.

    In the body of a function, between two `$$`, a line ends no statement.
    """
    lines = [line for line in statements.splitlines() if line and not line.startswith("--")]
    found, begun = list[str](), ""
    for part in "\n".join(lines).split(";\n"):
        begun += part
        if begun.count("$$") % 2:
            begun += ";\n"
        elif begun:
            found.append(begun)
            begun = ""
    return found


def main() -> int:
    """Migrate the database of CHARONIA_DATABASE_URL. Return the exit code."""
    try:
        settings = load(MigrationSettings)
        applied = asyncio.run(migrate(settings.database_url, parse_passwords(settings.role_passwords)))
    except ACCESS_ERRORS as error:
        return _fail(SettingsError(f"CHARONIA_DATABASE_URL is wrong: {error}"))
    except CONNECT_ERRORS as error:
        return _fail(CharoniaError(f"{type(error).__name__}: {error}"))
    except CharoniaError as error:
        return _fail(error)
    print(f"migrate: {', '.join(applied) or 'nothing to do'}")
    return 0


def _fail(error: CharoniaError) -> int:
    print(f"migrate: {error}", file=sys.stderr)
    return error.exit_code


if __name__ == "__main__":
    argparse.ArgumentParser(prog="python -m common.postgres.migrate", description=__doc__).parse_args()
    sys.exit(main())
