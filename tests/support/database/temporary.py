"""Databases for one test each. They are dropped afterwards: a thousand of them would need 12 GB."""

import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import asyncpg

from deploy.local.servers.account import Account
from deploy.local.servers.postgres import Postgres

SECONDS = 30.0  # for a statement
MEMORY = Path("/dev/shm")  # noqa: S108 - only the place is shared
ROOM = 2_000_000_000  # bytes, for some databases of each worker
TABLESPACE = "tests"


class Databases:
    """Creates and drops databases over one connection: to start psql takes longer than to copy a database."""

    def __init__(self, server: Postgres, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        self._server = server
        self._connection = connection

    @asynccontextmanager
    async def create(self, template: str = "template0") -> AsyncIterator[str]:
        """Create a database as a copy of an idle one, yield its URL, and drop it.

        Its files are copied. By default PostgreSQL writes all 9 MB into its log, which takes twice the time.
        """
        name = f"test_{uuid4().hex}"
        options = f'TEMPLATE "{template}" STRATEGY file_copy TABLESPACE {TABLESPACE}'
        try:
            await self._connection.execute(f'CREATE DATABASE "{name}" {options}', timeout=SECONDS)
            yield self._server.url_of(name)
        finally:
            await self._connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)', timeout=SECONDS)


@asynccontextmanager
async def open_databases(server: Postgres) -> AsyncIterator[Databases]:
    """Let tests create databases."""
    with tempfile.TemporaryDirectory(prefix="charonia-tests-", dir=find_memory()) as folder:
        Account.for_postgres().give(Path(folder))
        connection = await asyncpg.connect(server.url_of("postgres"))
        await connection.execute(f"CREATE TABLESPACE {TABLESPACE} LOCATION '{folder}'")
        yield Databases(server, connection)
        await connection.close()


def find_memory() -> Path | None:
    """Return a folder in memory, if it has room: a disk's file system takes far longer for a database's 300 files."""
    return MEMORY if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM else None
