"""The schema refuses rows that the rules of a job or a delivery do not allow."""

from uuid import UUID

import asyncpg
import pytest

from common import ids
from common.database import Database
from services.dispatcher.store import Store
from tests.integration.jobs import claim, new_end, submit

QUEUED = [
    "attempt = max_attempts + 1",
    "attempt = -1",
    "max_attempts = 0",
    "timeout = 0",
    "initial_delay = -1",
    "max_delay = initial_delay - 1",
    "priority = 'urgent'",
    "status = 'done'",
    "ring_at = NULL",
    "status = 'processing'",
    "status = 'processing', ring_at = NULL",
    "status = 'processing', ring_at = NULL, worker = 'w'",
    "status = 'processing', ring_at = NULL, lease_until = now()",
    "status = 'processing', lease_until = now(), worker = 'w'",
    "status = 'canceling', ring_at = NULL",
    "lease_until = now(), worker = 'w'",
    "worker = 'w'",
    "finished_at = now()",
    "status = 'succeeded', ring_at = NULL",
    "status = 'succeeded', finished_at = now()",
    "status = 'failed', ring_at = NULL, finished_at = now()",
    "status = 'canceled', ring_at = NULL",
    "status = 'expired', ring_at = NULL",
]
DELIVERY = """
INSERT INTO deliveries (id, event_id, tenant_id, job_id, url, status, traceparent, next_at, finished_at)
SELECT $1, id, tenant_id, job_id, 'https://a', $2, '', CASE WHEN $3 THEN now() END, CASE WHEN $4 THEN now() END
FROM events
"""


@pytest.mark.parametrize("change", QUEUED)
async def test_an_illegal_job_is_refused(database: Database, tenant: UUID, change: str) -> None:
    job = await submit(database, tenant)
    with pytest.raises(asyncpg.CheckViolationError):
        await database.fetch(f"UPDATE jobs SET {change} WHERE id = $1", job)  # noqa: S608 -- from the list above


@pytest.mark.parametrize(
    "change",
    [
        "attempt = max_attempts",
        "status = 'processing', ring_at = NULL, lease_until = now(), worker = 'w'",
        "status = 'failed', ring_at = NULL, finished_at = now(), error_code = 'e'",
        "status = 'canceled', ring_at = NULL, finished_at = now()",
    ],
)
async def test_a_legal_job_is_taken(database: Database, tenant: UUID, change: str) -> None:
    job = await submit(database, tenant)
    assert await database.fetch(f"UPDATE jobs SET {change} WHERE id = $1 RETURNING id", job)  # noqa: S608 -- as above


async def test_a_callback_has_a_url_and_events_or_neither(database: Database, tenant: UUID) -> None:
    job = await submit(database, tenant)
    with pytest.raises(asyncpg.CheckViolationError):
        await database.fetch("UPDATE job_inputs SET callback_url = 'https://a' WHERE job_id = $1", job)


@pytest.mark.parametrize(
    ("status", "due", "finished"),
    [
        ("pending", False, False),
        ("pending", True, True),
        ("succeeded", False, False),
        ("succeeded", True, True),
        ("exhausted", True, False),
        ("lost", False, True),
    ],
)
async def test_an_illegal_delivery_is_refused(
    database: Database, tenant: UUID, status: str, due: bool, finished: bool
) -> None:
    await end_one(database, tenant)
    with pytest.raises(asyncpg.CheckViolationError):
        await database.fetch(DELIVERY, ids.new(), status, due, finished)


async def test_an_event_has_one_delivery_to_each_receiver(database: Database, tenant: UUID) -> None:
    await end_one(database, tenant)
    await database.fetch(DELIVERY, ids.new(), "pending", True, False)
    with pytest.raises(asyncpg.UniqueViolationError):
        await database.fetch(DELIVERY, ids.new(), "pending", True, False)


async def test_a_key_is_known_by_a_hash_of_32_bytes(database: Database, tenant: UUID) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await database.fetch("INSERT INTO api_keys VALUES ($1, $2, '', 'short')", ids.new(), tenant)


async def end_one(database: Database, tenant: UUID) -> None:
    job = await claim(database, await submit(database, tenant))
    assert await Store(database).end_jobs([new_end(job)])
