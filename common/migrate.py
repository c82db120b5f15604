"""Brings the database to the newest schema: `python -m common.migrate`.

Each file of migrations/ runs once, in order, in a transaction of its own; a lock makes concurrent starts wait.
"""

import asyncio
import sys
from importlib.resources import files

import asyncpg
import msgspec

from common.database import REFUSALS
from common.errors import SettingsError
from common.settings import DatabaseUrl, load

LOCK = 0x43484152  # "CHAR": any number that nobody else locks
LEDGER = """
CREATE TABLE IF NOT EXISTS schema_migrations (
  name text PRIMARY KEY,
  applied_at timestamptz NOT NULL DEFAULT now()
)
"""


class MigrationSettings(msgspec.Struct, frozen=True):
    database_url: DatabaseUrl


def list_migrations() -> list[tuple[str, str]]:
    """(name, SQL) of each migration, oldest first."""
    folder = files("common") / "migrations"
    found = [(entry.name, entry.read_text()) for entry in folder.iterdir() if entry.name.endswith(".sql")]
    return sorted(found)


async def migrate(url: str) -> list[str]:
    """Applies what is missing and returns its names."""
    connection = await asyncpg.connect(url, timeout=10)
    try:
        await connection.execute("SELECT pg_advisory_lock($1)", LOCK, timeout=120)
        await connection.execute(LEDGER)
        done = {row["name"] for row in await connection.fetch("SELECT name FROM schema_migrations")}
        applied = []
        for name, statements in list_migrations():
            if name in done:
                continue
            async with connection.transaction():
                await connection.execute(statements)
                await connection.execute("INSERT INTO schema_migrations (name) VALUES ($1)", name)
            applied.append(name)
        return applied
    finally:
        await connection.close(timeout=5)


def main() -> int:
    try:
        settings = load(MigrationSettings)
        applied = asyncio.run(migrate(settings.database_url))
    except SettingsError as error:
        print(f"migrate: {error}", file=sys.stderr)
        return 2
    except REFUSALS as error:
        print(f"migrate: CHARONIA_DATABASE_URL is wrong: {error}", file=sys.stderr)
        return 2
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        print(f"migrate: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print(f"migrate: {', '.join(applied) or 'nothing to do'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
