"""The schema, with the checks of tests, refuses illegal jobs and deliveries."""

from uuid import UUID

import asyncpg
import pytest

from common import ids
from common.jobs.end import end_jobs
from common.postgres.database import Database
from tests.integration.deliveries import add_delivery
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
    "status = 'processing'",
    "status = 'processing', worker = 'w'",
    "status = 'processing', lease_until = now()",
    "status = 'processing', lease_until = now(), worker = 'w', scheduled_at = now()",
    "status = 'canceling'",
    "lease_until = now(), worker = 'w'",
    "worker = 'w'",
    "finished_at = now()",
    "status = 'succeeded'",
    "status = 'succeeded', finished_at = now(), scheduled_at = now()",
    "status = 'failed', finished_at = now()",
    "status = 'canceled'",
    "status = 'expired'",
]


@pytest.mark.parametrize("change", QUEUED)
async def test_an_illegal_job_is_refused(database: Database, tenant: UUID, change: str) -> None:
    job = await submit(database, tenant)
    with pytest.raises(asyncpg.CheckViolationError):
        await database.fetch(f"UPDATE jobs SET {change} WHERE id = $1", job)  # noqa: S608 -- from the list above


@pytest.mark.parametrize(
    "change",
    [
        "attempt = max_attempts",
        "status = 'processing', lease_until = now(), worker = 'w'",
        "status = 'failed', generation = 1, finished_at = now(), error_code = 'e'",
        "status = 'canceled', generation = 1, finished_at = now()",
    ],
)
async def test_a_legal_job_is_accepted(database: Database, tenant: UUID, change: str) -> None:
    job = await submit(database, tenant)
    assert await database.fetch(f"UPDATE jobs SET {change} WHERE id = $1 RETURNING id", job)  # noqa: S608 -- as above


async def test_a_callback_has_a_url_and_events_or_neither(database: Database, tenant: UUID) -> None:
    job = await submit(database, tenant)
    with pytest.raises(asyncpg.CheckViolationError):
        await database.fetch("UPDATE jobs SET callback_url = 'https://a' WHERE id = $1", job)


@pytest.mark.parametrize(("column", "most"), [("tensors", 2_097_152), ("parameters", 65_536), ("metadata", 16_384)])
async def test_the_inputs_in_a_row_are_small(database: Database, tenant: UUID, column: str, most: int) -> None:
    job = await submit(database, tenant)
    change = f"UPDATE jobs SET {column} = $2 WHERE id = $1"  # noqa: S608 -- from the list above
    await database.fetch(change, job, bytes(most))
    with pytest.raises(asyncpg.CheckViolationError):
        await database.fetch(change, job, bytes(most + 1))


@pytest.mark.parametrize(
    ("status", "due", "finished"),
    [
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
    event = await end_one(database, tenant)
    with pytest.raises(asyncpg.CheckViolationError):
        await add_delivery(database, event, status=status, due=due, finished=finished)


async def test_an_event_has_one_delivery_to_each_receiver(database: Database, tenant: UUID) -> None:
    event = await end_one(database, tenant)
    await add_delivery(database, event)
    with pytest.raises(asyncpg.UniqueViolationError):
        await add_delivery(database, event)


async def test_a_key_is_known_by_a_hash_of_32_bytes(database: Database, tenant: UUID) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await database.fetch("INSERT INTO api_keys VALUES ($1, $2, '', 'short')", ids.new(), tenant)


async def end_one(database: Database, tenant: UUID) -> UUID:
    """End a job. Return the event."""
    job = await claim(database, await submit(database, tenant))
    (event,) = await end_jobs(database, [new_end(job)])
    return event
