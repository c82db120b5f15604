"""The migrations of this version of the code, and whether it can use the schema of a database.

A migration is a file `migrations/NNNN_name.sql`. Comments at its top may say two things:

    -- compatible with: 3        services whose newest migration is 0003, or later, can use the schema after it
    -- migrate: no transaction   it runs outside a transaction, as CREATE INDEX CONCURRENTLY must

Without the first one, older services cannot use the schema. An upgrade without downtime therefore has three steps, each
in a release of its own: add what is new, deploy services that use it, remove what is old.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

import asyncpg
import msgspec

from common.errors import SchemaError

HOW_TO_MIGRATE = "Run `python -m common.postgres.migrate` of this version, then start the service again."
_FILE_NAME = re.compile(r"(\d{4})_\w+\.sql")
_COMPATIBLE_WITH = re.compile(r"^-- compatible with: (\d+)$", re.MULTILINE)
_NO_TRANSACTION = re.compile(r"^-- migrate: no transaction$", re.MULTILINE)
_LIST_APPLIED = "SELECT number, compatible_with FROM schema_migrations"


class Migration(msgspec.Struct, frozen=True):
    """One file; `compatible_with` is the least schema version of services that can use the schema after it."""

    number: int
    name: str
    statements: str
    compatible_with: int
    in_transaction: bool


def parse_migration(name: str, text: str) -> Migration:
    """Return the migration in a file. Raise SchemaError for a wrong name or header."""
    match = _FILE_NAME.fullmatch(name)
    if match is None:
        raise SchemaError(f"migration {name}: expected a name such as 0002_add_column.sql. Rename the file.")
    number = int(match[1])
    header = _COMPATIBLE_WITH.search(text)
    compatible_with = int(header[1]) if header else number
    if compatible_with > number:
        raise SchemaError(f"migration {name}: `compatible with: {compatible_with}` is above its own number.")
    return Migration(number, name, text, compatible_with, _NO_TRANSACTION.search(text) is None)


def sort_migrations(found: Sequence[Migration]) -> list[Migration]:
    """Return migrations in the order of their numbers. Raise SchemaError if two have the same number."""
    by_number: dict[int, Migration] = {}
    for migration in found:
        other = by_number.setdefault(migration.number, migration)
        if other is not migration:
            raise SchemaError(f"migrations {other.name} and {migration.name} have the same number. Renumber one.")
    return [by_number[number] for number in sorted(by_number)]


@cache
def list_migrations() -> list[Migration]:
    """Return the migrations of this version, oldest first."""
    folder = files("common.postgres") / "migrations"
    return sort_migrations(
        [parse_migration(file.name, file.read_text()) for file in folder.iterdir() if file.name.endswith(".sql")]
    )


async def read_applied(connection: "asyncpg.Connection[asyncpg.Record]") -> dict[int, int]:
    """Return the number of each applied migration, with the least schema version of services that can use it.

    Raise SchemaError for a database from before the first release.
    """
    try:
        return {row["number"]: row["compatible_with"] for row in await connection.fetch(_LIST_APPLIED)}
    except asyncpg.UndefinedTableError:
        return {}
    except asyncpg.UndefinedColumnError as error:
        raise SchemaError(
            "database schema: found one from before the first release, which cannot be migrated. Create a new "
            "database, set CHARONIA_DATABASE_URL to it, and run `python -m common.postgres.migrate`."
        ) from error


def check_applied(applied: Mapping[int, int], ours: Sequence[Migration]) -> None:
    """Raise SchemaError if services with `ours` migrations cannot use a schema to which `applied` ones were applied."""
    found, expected = max(applied, default=0), ours[-1].number
    if any(migration.number not in applied for migration in ours):
        raise SchemaError(f"database schema: found version {found}, expected {expected}. {HOW_TO_MIGRATE}")
    least = max(compatible_with for number, compatible_with in applied.items() if number >= expected)
    if least > expected:
        raise SchemaError(
            f"database schema: found version {found}, which needs services with version {least} or later; this one "
            f"has {expected}. Start a newer version of Charonia."
        )


async def check_schema(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Raise SchemaError if this version of the code cannot use the schema of the database."""
    check_applied(await read_applied(connection), list_migrations())
