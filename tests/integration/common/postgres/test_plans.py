"""On big tables every query uses an index, however old the statistics are."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias
from uuid import uuid4

import asyncpg
import msgspec
import pytest

from common import ids
from common.jobs import Status
from common.postgres import sql
from common.postgres.database import CUSTOM_PLANS, GENERIC_PLANS
from deploy.local.postgres import Postgres
from services.gateway.jobs.store import LEAST_ID
from tests.integration.common.postgres.test_queries import QUERIES
from tests.support.seed import QUERIES as SEEDING

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
BIG = ("jobs", "job_inputs", "job_outputs", "job_attempts", "events", "deliveries", "attempts", "outbox")
SCANS = ("Seq Scan", "Index Scan", "Index Only Scan", "Bitmap Index Scan")
# Queries that may read a whole index or table. count_queued counts. claim_jobs checks the running jobs for a suspected
# poison job. turn_back moves every due time after the clock was set back.
WHOLE = {
    ("gateway.count_queued", "jobs"),
    ("dispatcher.claim_jobs", "jobs"),
    ("notifier.move_due_times_back", "deliveries"),
    ("notifier.move_due_times_back", "outbox"),
}
PLANNING = {  # the settings of the services' sessions
    "services.gateway": [CUSTOM_PLANS],
    "services.dispatcher": [GENERIC_PLANS],
    "services.notifier": [GENERIC_PLANS],
}
MANY = 10_000
DAY = 86_400.0
BACKLOG = """
WITH new AS MATERIALIZED (
  SELECT gen_random_uuid() AS id, number % 50 = 0 AS running, number % 3 = 0 AS fanned_out
  FROM generate_series(1, 3000) number
), jobs AS (
  INSERT INTO jobs (id, tenant_id, model, priority, status, max_attempts, timeout, initial_delay, max_delay,
                    traceparent, next_wake_up_at, expires_at, started_at, lease_until, worker)
  SELECT id, $1::uuid, 'echo', 'normal', CASE WHEN running THEN 'processing' ELSE 'queued' END, 3, 600, 1, 300, '',
         CASE WHEN NOT running THEN now() END, now(), CASE WHEN running THEN now() END,
         CASE WHEN running THEN now() END, CASE WHEN running THEN 'worker' END
  FROM new
), inputs AS (
  INSERT INTO job_inputs (job_id, tensors) SELECT id, '' FROM new
), messages AS (
  INSERT INTO outbox (id, exchange, routing_key, body, traceparent) SELECT id, '', '', '', '' FROM new
), new_events AS (
  INSERT INTO events (id, tenant_id, job_id, model, type, body, fanned_out_at)
  SELECT id, $1, id, 'echo', 'job.started', '{}', CASE WHEN fanned_out THEN now() END FROM new
)
, endpoint AS (
  INSERT INTO endpoints (id, tenant_id, origin, next_at) VALUES ($1, $1, 'https://waiting.example', now())
  ON CONFLICT DO NOTHING
)
INSERT INTO deliveries (id, event_id, tenant_id, job_id, url, event_type, endpoint_id, status, next_at, lease_until,
                        traceparent)
SELECT id, id, $1, id, '', 'job.started', $1, 'pending', now(), CASE WHEN running THEN now() END, '' FROM new
"""
KEYS = {"jobs_pkey", "job_inputs_pkey"}
LISTS = {  # additional values, and the indexes that may be used
    "list_jobs": ((), {"jobs_ended", "jobs_waiting", "jobs_by_lease", *KEYS}),
    "list_jobs_of_model": (  # if most waiting jobs are of the model, the index of all waiting jobs may be used
        ("'echo'",),
        {"jobs_ended_of_model", "jobs_waiting_of_model", "jobs_waiting", "jobs_by_lease", *KEYS},
    ),
    "list_jobs_of_batch": ((f"'{ids.new()}'", "'echo'"), {"jobs_of_batch", *KEYS}),
}
VALUES = {
    "int4": "200",
    "int8": "200",
    "float8": "30",
    "bool": "true",
    "timestamptz": "now()",
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


@pytest.fixture(params=HISTORIES)
async def database(request: pytest.FixtureRequest, postgres: Postgres, template: str) -> AsyncIterator[Connection]:
    """Big tables with statistics as old as the name says."""
    connection = await asyncpg.connect(postgres.create_database(f"plans_{uuid4().hex}", template))
    for table in BIG:
        await connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")  # autovacuum also analyzes
    await connection.execute("SET session_replication_role = replica")  # skips the checks of foreign keys
    # Reading a small table is cheaper than a few look-ups. These costs make its pages as expensive as those of a big
    # one.
    await connection.execute("SET seq_page_cost = 200; SET random_page_cost = 4")
    tenant = ids.new()
    await connection.execute("INSERT INTO tenants (id, name, webhook_secret) VALUES ($1, 'many', '')", tenant)
    for step in HISTORIES[request.param]:
        await step(connection, tenant)
    yield connection
    await connection.close()


async def test_every_query_uses_an_index(database: Connection) -> None:
    found = []
    for package, name, statement in QUERIES:
        query = f"{package.removeprefix('services.')}.{name}"
        for planning in PLANNING.get(package, (CUSTOM_PLANS, GENERIC_PLANS)):
            await plan_as(database, planning)
            for plan in await explain(database, statement):
                found += [f"{query}: {fault}" for table, fault in list_scans(plan) if (query, table) not in WHOLE]
    assert sorted(set(found)) == []


async def test_every_list_of_jobs_uses_its_own_indexes(database: Connection) -> None:
    """For any states and times. The planner knows them when it plans for one call."""
    tenant = await database.fetchval("SELECT id FROM tenants")
    found = []
    for name, (more, own) in LISTS.items():
        statement = sql.load("services.gateway.jobs", "listing.sql")[name]
        for states in [
            [Status.QUEUED],
            [Status.PROCESSING],
            [Status.CANCELED],
            [Status.FAILED, Status.QUEUED],
            [*Status],
        ]:
            for before, after in (("'9999-01-01'", "'0001-01-01'"), ("now()", "now() - interval '1 day'")):
                wanted = [f"'{tenant}'", f"'{{{','.join(states)}}}'", before, f"'{LEAST_ID}'", after, "101", *more]
                for plan in await explain(database, statement, wanted):
                    faults = (set(list_indexes(plan)) - own) | {fault for _, fault in list_scans(plan)}
                    found += [f"{name} of {','.join(states)} from {after}: {fault}" for fault in faults]
    assert sorted(set(found)) == []


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


async def plan_as(database: Connection, planning: Mapping[str, str]) -> None:
    for name in GENERIC_PLANS:
        await database.execute(f"SET {name} = {planning.get(name, 'DEFAULT')}")


async def explain(database: Connection, statement: str, given: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return the plan for the first values, and the plan after several executions, which may be generic.

    Without values, make some.
    """
    prepared = await database.prepare(statement)
    values = ", ".join(given or [make_value(parameter.name) for parameter in prepared.get_parameters()])
    await database.execute(f"PREPARE query AS {statement}")
    try:
        plans = [
            await database.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE query{f'({values})' if values else ''}")
            for _ in range(7)
        ]
    finally:
        await database.execute("DEALLOCATE query")
    return [msgspec.json.decode(plan)[0]["Plan"] for plan in (plans[0], plans[-1])]


def make_value(kind: str) -> str:
    """Return an SQL expression of a type, or an array of ten."""
    if kind.endswith("[]"):
        return f"array_fill({make_value(kind.removesuffix('[]'))}::{kind.removesuffix('[]')}, ARRAY[10])"
    return VALUES.get(kind, f"'{ids.new()}'")


def list_scans(plan: dict[str, Any], table: str = "") -> Iterator[tuple[str, str]]:
    """Yield each scan of a big table without an index condition: the table and the scan."""
    table = plan.get("Relation Name", table)  # a bitmap index scan does not name its table
    if plan["Node Type"] in SCANS and table in BIG and "Index Cond" not in plan:
        yield table, f"{plan['Node Type']} of {plan.get('Index Name', table)}"
    for child in plan.get("Plans", []):
        yield from list_scans(child, table)


def list_indexes(plan: dict[str, Any]) -> Iterator[str]:
    if "Index Name" in plan:
        yield plan["Index Name"]
    for child in plan.get("Plans", []):
        yield from list_indexes(child)
