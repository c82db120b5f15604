"""A database within a transaction."""

import asyncpg

from common.postgres.database import Connection, Database


class OpenTransaction(Database):
    """Runs statements in a transaction that somebody else ends. Its `now()` stands still."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def fetch(self, query: str, *values: object) -> list[asyncpg.Record]:
        return await self._connection.fetch(query, *values)
