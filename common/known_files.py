"""Tells objects of files from orphans, which no row knows. The row of a file is written before its object."""

from collections.abc import Collection
from uuid import UUID

from common.object_store.keys import file_key
from common.postgres import sql
from common.postgres.database import Database

QUERIES = sql.load("common", "known_files.sql")


async def find_known(database: Database, ids: Collection[UUID]) -> set[str]:
    """Return the keys of the objects of those files that have a row. Raises Unavailable."""
    found = await database.fetch(QUERIES["find_known_files"], [*ids])
    return {file_key(record["tenant_id"], record["id"]) for record in found}
