"""Tables as weeks of work leave them: ended jobs with all that belongs to them, and jobs that wait."""

import asyncio
import itertools
import os
import shutil
import time
from collections.abc import Iterator
from typing import Any

import asyncpg

from benchmarks.fairness import add_key
from common import sql
from deploy.local.errors import LocalError
from deploy.local.stack import Stack
from deploy.local.terminal import say

BYTES = 2000  # of the disk for each job with all that belongs to it: 1,320, and the log of it
CHUNK = 50_000
TOLD = 1_000_000  # jobs between two lines of progress
FILL = sql.load("benchmarks", "retention.sql")["fill"]
FILL_QUEUED = sql.load("benchmarks", "queued.sql")["fill_queued"]
OTHER = "waiting"  # the tenant of the jobs that wait
# Without a checkpoint after each gigabyte, whole pages go into the log once only.
FILLING = {"max_wal_size": "8GB", "checkpoint_timeout": "1h", "autovacuum": "off", "synchronous_commit": "off"}


class DiskTooSmall(LocalError):
    """The rows would not fit."""


def fill(stack: Stack, rows: int, age: float, queued: int = 0) -> float:
    """Give the tenant `default` so many ended jobs, up to `age` seconds old, and another so many that wait.

    Returns the seconds that it took; raises DiskTooSmall.
    """
    began, total, free = time.perf_counter(), rows + queued, shutil.disk_usage(stack.settings.stack_dir).free
    if free < 2 * total * BYTES:
        wanted = f"{total} jobs take {total * BYTES / 1e9:.0f} GB"
        raise DiskTooSmall(f"{wanted}; of {free / 1e9:.0f} GB as much must stay free")
    for name, value in FILLING.items():
        stack.postgres.query(f"ALTER SYSTEM SET {name} = '{value}'")
    stack.postgres.query("SELECT pg_reload_conf()")
    if queued:
        add_key(stack, OTHER)
    asyncio.run(_fill(stack.postgres.url, rows, age, queued))
    stack.postgres.query("ALTER SYSTEM RESET ALL")
    stack.postgres.query("SELECT pg_reload_conf()")
    return time.perf_counter() - began


async def _fill(url: str, rows: int, age: float, queued: int) -> None:
    """On as many connections as there are cores."""
    connections = [await asyncpg.connect(url) for _ in range(os.cpu_count() or 1)]
    first = connections[0]
    try:
        default, other = [
            await first.fetchval("SELECT id FROM tenants WHERE name = $1", name) for name in ("default", OTHER)
        ]
        ended = ((FILL, low, min(low + CHUNK - 1, rows), rows, default, age) for low in range(1, rows + 1, CHUNK))
        waiting = ((FILL_QUEUED, low, min(low + CHUNK - 1, queued), other) for low in range(1, queued + 1, CHUNK))
        chunks = itertools.chain(ended, waiting)
        await asyncio.gather(*(_work(connection, chunks) for connection in connections))
        await first.execute("VACUUM (ANALYZE)")  # as it would be after weeks of work
        await first.execute("CHECKPOINT")
    finally:
        for connection in connections:
            await connection.close()


async def _work(connection: "asyncpg.Connection[asyncpg.Record]", chunks: Iterator[tuple[Any, ...]]) -> None:
    await connection.execute("SET session_replication_role = replica")  # no foreign keys are checked
    for statement, *arguments in chunks:
        await connection.execute(statement, *arguments)
        if arguments[1] % TOLD == 0:
            say(f"  {arguments[1]} jobs")
