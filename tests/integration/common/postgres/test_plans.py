"""On big tables every query uses an index, however old the statistics are."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from typing import Any, NamedTuple, TypeAlias

import asyncpg
import msgspec
import pytest

from common import ids
from common.postgres.session_settings import PLANNING
from tests.integration.common.postgres.test_queries import QUERIES
from tests.integration.deliveries import EVENT
from tests.support.database.seed import QUERIES as SEEDING
from tests.support.database.temporary import Databases

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
BIG = (
    "jobs",
    "runs",
    "batch_items",
    "job_attempts",
    "events",
    "deliveries",
    "attempts",
    "audit_log",
    "files",
    "twins",
    "shared_outputs",
)
SCANS = ("Seq Scan", "Index Scan", "Index Only Scan", "Bitmap Index Scan")
# Queries that may read a whole index or table. count_queued counts. turn_back moves every due time after the
# clock was set back.
WHOLE = {
    ("gateway.count_queued", "jobs"),
    ("notifier.move_due_times_back", "deliveries"),
}
MANY = 10_000
FEW = 5  # rows
DAY = 86_400.0
BACKLOG = """
WITH new AS MATERIALIZED (
  SELECT gen_random_uuid() AS id, number % 50 = 0 AS running, number % 3 = 0 AS later,
         number % 5 = 0 AS joined
  FROM generate_series(1, 3000) number
), jobs AS (
  INSERT INTO jobs (id, tenant_id, model, priority, status, max_attempts, timeout, initial_delay, max_delay,
                    traceparent, scheduled_at, expires_at, started_at, lease_until, worker, tensors, input_files,
                    reuse_key)
  SELECT id, $1::uuid, 'echo', 'normal', CASE WHEN running THEN 'processing' ELSE 'queued' END, 3, 600, 1, 300, '',
         CASE WHEN NOT running AND joined THEN 'infinity' WHEN NOT running AND later THEN now() END, now(),
         CASE WHEN running THEN now() END,
         CASE WHEN running THEN now() END, CASE WHEN running THEN 'worker' END, '', ARRAY[id],
         CASE WHEN joined THEN sha256(uuid_send(id)) END
  FROM new
), first AS (
  INSERT INTO twins (tenant_id, key, job_id) SELECT $1, sha256(uuid_send(id)), id FROM new
), shared AS (
  INSERT INTO shared_outputs (source, job_id) SELECT gen_random_uuid(), id FROM new
), runs AS (
  INSERT INTO jobs (id, generation, tenant_id, model, priority, status, max_attempts, timeout, initial_delay, max_delay,
                    traceparent, scheduled_at, lease_until, worker, tensors, input_files, run_state)
  SELECT gen_random_uuid(), -1, $1, 'chain', 'normal', CASE WHEN running THEN 'processing' ELSE 'queued' END, 1, 600, 0,
         0, '', CASE WHEN NOT running THEN now() END, CASE WHEN running THEN now() END,
         CASE WHEN running THEN 'pipeline' END, '', ARRAY[id], '{}'
  FROM new
), items AS (
  INSERT INTO batch_items (batch_id, index, job_id) SELECT gen_random_uuid(), 0, id FROM new
), attempts AS (
  INSERT INTO job_attempts (job_id, claim, attempt, model, worker, due_at, started_at, finished_at, status)
  SELECT id, 1, 1, 'echo', 'worker', now(), now(), now(), 'failed' FROM new
), new_events AS (
  INSERT INTO events (id, tenant_id, job_id, model, type, body, traceparent)
  SELECT id, $1, id, 'echo', 'job.started', '{}', '' FROM new
)
, audit AS (
  INSERT INTO audit_log (id, tenant_id, actor, action, target, changes)
  SELECT id, $1, 'test', 'webhook.updated', '', '{}' FROM new
)
, stored AS (
  INSERT INTO files (id, tenant_id, status, content_type, size, sha256, kept, expires_at)
  SELECT id, $1, CASE WHEN running THEN 'uploading' ELSE 'ready' END, 'text/plain', 1000, '', 60,
         now() + make_interval(hours => CASE WHEN later THEN 24 ELSE 0 END)
  FROM new
)
, endpoint AS (
  INSERT INTO endpoints (id, tenant_id, origin, next_at) VALUES ($1, $1, 'https://waiting.example', now())
  ON CONFLICT DO NOTHING
)
INSERT INTO deliveries (id, event_id, event_generation, tenant_id, job_id, url, event_type, endpoint_id, status,
                        next_at, lease_until, traceparent)
SELECT derive_id(id, $1), id, current_generation(), $1, id, '', 'job.started', $1, 'pending',
       CASE WHEN running OR later THEN now() END, CASE WHEN running THEN now() END, ''
FROM new
"""
KEYS = {"jobs_pkey", "live_jobs_pkey", "live_runs_pkey"}
LISTS = {  # the indexes that a list may use
    "list_jobs": {"jobs_ended", "jobs_waiting", "jobs_by_lease", "runs_by_tenant", *KEYS},
    "list_jobs_of_model": {"jobs_ended_of_model", "jobs_waiting", "jobs_by_lease", "runs_by_tenant", *KEYS},
    "list_jobs_of_batch": {"jobs_of_batch", "runs_of_batch", "runs_by_tenant"},
    "list_jobs_of_run": {"jobs_of_run"},
    "list_dead_letters": {"jobs_dead_letters"},
    "list_webhook_deliveries": {"deliveries_by_endpoint", "endpoints_pkey"},
    "find_health": {"deliveries_by_due", "deliveries_by_endpoint", "endpoints_pkey"},
    "measure_deliveries": {"deliveries_by_endpoint", "attempts_pkey"},
    "find_traced_job": {"job_steps_pkey", *KEYS},
    "list_runs": {*KEYS, "job_attempts_pkey", "job_steps_pkey"},
    "measure_recent": {"jobs_ended_of_model"},
    "count_running": {"jobs_by_lease"},
    "list_feed": {"events_in_feed"},
    "count_waiting": {"jobs_waiting", "runs_by_tenant"},
    "count_own_running": {"jobs_by_lease", "runs_by_tenant"},
    "measure_ended": {"jobs_by_end"},
    "count_by_minute": {"jobs_waiting", "jobs_by_lease", "jobs_by_end", "runs_by_tenant"},
    "find_news": {"events_in_feed"},
    "find_feed_end": {"events_in_feed"},
    "list_files": {"files_by_tenant"},
    "measure_files": {"files_by_tenant"},
    "measure_stored": {"files_by_tenant"},
    "keep_large_inputs": {"files_pkey"},
    "drop_large_inputs": {"files_pkey"},
    "drop_files": {"files_pkey"},
    "lock_expired_files": {"files_by_expiry"},
    "list_unchecked_files": {"files_unchecked"},
    "save_checked_files": {"files_pkey"},
    "claim_expired_files": {"files_pkey", "jobs_by_input_file", "runs_by_input_file"},
    "delete_file": {"files_pkey", "jobs_by_input_file", "runs_by_input_file", "batches_by_unread_file"},
    "list_audit_log": {"audit_log_by_tenant"},
    "list_whole_audit_log": {"audit_log_by_time"},
    "list_job_deliveries": {"events_by_job", "deliveries_by_event", "endpoints_pkey"},  # a job has few events
}
VALUES = {
    "int2": "2",
    "int4": "200",
    "int8": "200",
    "xid8": "'200'",
    "float8": "30",
    "bool": "true",
    "timestamptz": "now()",
    "date": "now()",
    "bytea": "''",
    "jsonb": "'[]'",
}


async def end_many(database: Connection, tenant: object) -> None:
    await database.execute(SEEDING["fill_ended"], 1, MANY, MANY, tenant, 60 * DAY)


async def queue_many(database: Connection, tenant: object) -> None:
    await database.execute(BACKLOG, tenant)


async def analyze(database: Connection, _tenant: object) -> None:
    await database.execute("ANALYZE")


HISTORIES: dict[str, list[Callable[[Connection, object], Awaitable[None]]]] = {
    "fresh statistics": [end_many, queue_many, analyze],
    "no statistics": [end_many, queue_many],
    "statistics of when nothing waited": [end_many, analyze, queue_many],
    "statistics of when all waited": [queue_many, analyze, end_many],
}


@pytest.fixture(scope="module", params=HISTORIES)
async def database(request: pytest.FixtureRequest, databases: Databases, template: str) -> AsyncIterator[Connection]:
    """Big tables with statistics as old as the name says. Tests change nothing."""
    async with databases.create(template) as url:
        connection = await asyncpg.connect(url)
        for record in await connection.fetch("SELECT relname FROM pg_class WHERE relkind = 'r' AND relname !~ '^pg_'"):
            if (table := record["relname"]) and name_table(table) in BIG:  # autovacuum also analyzes
                await connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
        await connection.execute("SET session_replication_role = replica")  # skips the checks of foreign keys
        # Reading a small table is cheaper than a few look-ups. These costs make its pages as expensive as those of a
        # big one.
        await connection.execute("SET seq_page_cost = 200; SET random_page_cost = 4")
        for name, value in PLANNING.items():
            await connection.execute(f"SET {name} = {value}")
        tenant = ids.new()
        await connection.execute("INSERT INTO tenants (id, name, webhook_secret) VALUES ($1, 'many', '')", tenant)
        for step in HISTORIES[request.param]:
            await step(connection, tenant)
        yield connection
        await connection.close()


async def test_every_query_uses_an_index(database: Connection) -> None:
    found = []
    empty = await list_empty(database)
    for package, name, statement in QUERIES:
        query = f"{package.removeprefix('services.')}.{name}"
        plan = await explain(database, statement)
        scans = [each for each in list_scans(plan) if each.partition not in empty]
        found += [f"{query}: {each.text}" for each in scans if (query, name_table(each.partition)) not in WHOLE]
    assert found == []


async def test_every_list_uses_its_own_indexes(database: Connection) -> None:
    """For any values, because the plan is made without them. A job that waits for a twin names it."""
    found = []
    empty = await list_empty(database)
    for _, name, statement in QUERIES:
        if name in LISTS:
            indexes = {*list_indexes(await explain(database, statement), empty)}
            found += [f"{name}: {index}" for index in sorted(indexes - LISTS[name] - {"twins_pkey"})]
    assert found == []


async def test_the_count_of_usage_uses_its_own_index(database: Connection) -> None:
    for name in ("find_usage_bound", "count_usage", "forget_counted_jobs"):
        (statement,) = [text for _, known, text in QUERIES if known == name]
        indexes = {*list_indexes(await explain(database, statement))}
        assert "jobs_by_ended_xid" in indexes, name
        assert indexes <= {"jobs_by_ended_xid", *KEYS}, name


async def test_the_deliveries_of_an_event_are_added_without_reading_a_table(database: Connection) -> None:
    tenant = await database.fetchval("SELECT id FROM tenants")
    job = await database.fetchval("SELECT id FROM jobs WHERE callback_url IS NOT NULL LIMIT 1")
    count = "SELECT count(*) FROM deliveries WHERE status = 'pending' AND job_id = $1"
    transaction = database.transaction()
    await transaction.start()
    try:
        await database.execute("SET LOCAL session_replication_role = origin")  # so that triggers run
        before = await count_reads(database)
        await database.execute(EVENT, ids.new(), tenant, job, "echo", "job.succeeded")
        after = await count_reads(database)
        added = await database.fetchval(count, job)
    finally:
        await transaction.rollback()
    assert added == 1
    assert all(after[table] - before.get(table, 0) <= FEW for table in after)


async def count_reads(database: Connection) -> dict[str, int]:
    """Return how many rows of each big table this transaction has read."""
    found = await database.fetch(
        "SELECT relname, seq_tup_read + idx_tup_fetch AS rows FROM pg_stat_xact_user_tables "
        "WHERE idx_tup_fetch IS NOT NULL"
    )
    return {record["relname"]: record["rows"] for record in found if name_table(record["relname"]) in BIG}


async def test_every_cascade_uses_an_index(schema: Connection) -> None:
    """An index that begins with the foreign key finds the referencing rows."""
    found = await schema.fetch(
        """
        SELECT conrelid::regclass::text AS table, conname
        FROM pg_constraint
        WHERE contype = 'f' AND confdeltype = 'c' AND NOT EXISTS (
          SELECT 1 FROM pg_index WHERE indrelid = conrelid AND indkey[0] = conkey[1]
        )
        """
    )
    assert found == []


async def list_empty(database: Connection) -> set[str]:
    """Return the partitions that the planner knows as empty. It forgets that: see `begin` in history."""
    known = "SELECT relname FROM pg_class WHERE relkind = 'r' AND reltuples = 0"
    return {record["relname"] for record in await database.fetch(known)}


async def explain(database: Connection, statement: str) -> dict[str, Any]:
    """Return the plan that a session keeps for a statement. Fail if it plans each call anew."""
    prepared = await database.prepare(statement)
    values = ", ".join(make_value(parameter.name) for parameter in prepared.get_parameters())
    await database.execute(f"PREPARE query AS {statement}")
    try:
        plan = await database.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE query{f'({values})' if values else ''}")
        assert await database.fetchval("SELECT custom_plans FROM pg_prepared_statements WHERE name = 'query'") == 0
    finally:
        await database.execute("DEALLOCATE query")
    found: dict[str, Any] = msgspec.json.decode(plan)[0]["Plan"]
    return found


def name_table(partition: str) -> str:
    """Return the table of a partition: a generation of history, or the live one."""
    return re.sub(r"_[1-8]$", "", partition.removeprefix("live_"))


def name_index(partition: str) -> str:
    """Return the name that an index has in each generation of history."""
    return re.sub(r"_[1-8](_pkey)?$", r"\1", partition)


def make_value(kind: str) -> str:
    """Return an SQL expression of a type, or an array of ten."""
    if kind.endswith("[]"):
        return f"array_fill({make_value(kind.removesuffix('[]'))}::{kind.removesuffix('[]')}, ARRAY[10])"
    return VALUES.get(kind, f"'{ids.new()}'")


class Scan(NamedTuple):
    """A scan of a partition, or of a table that has none."""

    partition: str
    text: str


def list_scans(plan: dict[str, Any], partition: str = "") -> Iterator[Scan]:
    """Yield each scan of a big table without an index condition."""
    partition = plan.get("Relation Name", partition)  # a bitmap index scan does not name its table
    if plan["Node Type"] in SCANS and name_table(partition) in BIG and "Index Cond" not in plan:
        yield Scan(partition, f"{plan['Node Type']} of {plan.get('Index Name', partition)}")
    for child in plan.get("Plans", []):
        yield from list_scans(child, partition)


def list_indexes(plan: dict[str, Any], empty: Collection[str] = (), partition: str = "") -> Iterator[str]:
    """Yield the names of the indexes, but not of those of empty partitions."""
    partition = plan.get("Relation Name", partition)
    if "Index Name" in plan and partition not in empty:
        yield name_index(plan["Index Name"])
    for child in plan.get("Plans", []):
        yield from list_indexes(child, empty, partition)
