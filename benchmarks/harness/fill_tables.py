"""Fills tables as weeks of work leave them: ended jobs with their events and deliveries, and jobs that wait."""

import asyncio
import os
import shutil
import time

import asyncpg

from benchmarks.harness.bench import QUERIES, BenchmarkFailed
from deploy.local.stack import Stack
from deploy.local.terminal import say
from tests.support.database import seed
from tests.support.stacks.key_command import make_key

BYTES = 2000  # of disk for each job and its rows: 1,320, and their write-ahead log
CHUNK = 50_000  # jobs of one statement
WAITING_TENANT = "waiting"
ENDED, QUEUED = seed.QUERIES["fill_ended"], QUERIES["fill_queued"]
# Without a checkpoint after each gigabyte, whole pages are logged only once.
SERVER_SETTINGS = {"max_wal_size": "8GB", "checkpoint_timeout": "1h", "autovacuum": "off", "synchronous_commit": "off"}


def fill_tables(stack: Stack, rows: int, age: float, queued: int = 0) -> float:
    """Add ended jobs, up to `age` seconds old, of the tenant `default`, and waiting jobs of another.

    Return the seconds that it took; raise BenchmarkFailed if the disk is too small.
    """
    began, total, free = time.perf_counter(), rows + queued, shutil.disk_usage(stack.settings.stack_dir).free
    if free < 2 * total * BYTES:
        needed, has = 2 * total * BYTES / 1e9, free / 1e9
        raise BenchmarkFailed(f"{total} jobs need {needed:.0f} GB of free disk; there are {has:.0f} GB: take fewer")
    say(f"Filling the tables with {rows:,} ended and {queued:,} waiting jobs …")
    for name, value in SERVER_SETTINGS.items():
        stack.postgres.query(f"ALTER SYSTEM SET {name} = '{value}'")
    stack.postgres.query("SELECT pg_reload_conf()")
    asyncio.run(make_key(stack, WAITING_TENANT))
    asyncio.run(_fill(stack.postgres.url, rows, age, queued))
    stack.postgres.query("ALTER SYSTEM RESET ALL")
    stack.postgres.query("SELECT pg_reload_conf()")
    return time.perf_counter() - began


async def _fill(url: str, rows: int, age: float, queued: int) -> None:
    """Use as many connections as there are cores, without triggers."""
    settings = {"session_replication_role": "replica"}
    async with asyncpg.create_pool(url, min_size=1, max_size=os.cpu_count() or 1, server_settings=settings) as pool:
        default, other = [
            await pool.fetchval("SELECT id FROM tenants WHERE name = $1", name) for name in ("default", WAITING_TENANT)
        ]
        await asyncio.gather(
            *(pool.execute(ENDED, *chunk, rows, default, age) for chunk in _chunks(rows)),
            *(pool.execute(QUEUED, *chunk, other) for chunk in _chunks(queued)),
        )
        await pool.execute(QUERIES["set_generations"])
        await pool.execute("VACUUM (ANALYZE)")  # as it is after weeks of work
        await pool.execute("CHECKPOINT")


def _chunks(count: int) -> list[tuple[int, int]]:
    return [(low, min(low + CHUNK - 1, count)) for low in range(1, count + 1, CHUNK)]
