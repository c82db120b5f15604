"""Erases the payload of ended jobs that are locked."""

from collections.abc import Sequence
from uuid import UUID

import asyncpg

from common.job_states import TERMINAL
from common.jobs.moves import Moves, stay
from common.postgres import statements
from common.postgres.database import Connection, Settled

STATEMENTS = statements.load("common.jobs", "erase.sql")
MOVES = (Moves("erase_job", stay(*TERMINAL)),)


async def lock_events(connection: Connection, job_id: UUID) -> list[UUID]:
    """Lock all events of a job, then their endpoints, then their deliveries. Notifiers lock in the same order."""
    events = [record["id"] for record in await _lock(connection, "lock_job_events", job=job_id)]
    await _lock(connection, "lock_event_endpoints", events=events)
    await _lock(connection, "lock_event_deliveries", events=events)
    return events


async def _lock(connection: Connection, name: str, **values: object) -> list[asyncpg.Record]:
    statement = STATEMENTS[name]
    return await Settled(connection).fetch(statement.text, *statement.bind(**values))


async def is_delivering(connection: Connection, job_id: UUID, events: Sequence[UUID]) -> bool:
    """Return whether one of the locked events is being sent, or the job has new events."""
    (found,) = await STATEMENTS["is_delivering"].run(connection, job=job_id, events=events)
    delivering: bool = found["is_delivering"]
    return delivering


async def erase_job(connection: Connection, job_id: UUID, events: Sequence[UUID]) -> None:
    """Erase the payload of a locked job, and delete its locked events."""
    await STATEMENTS["erase_job"].run(connection, job=job_id, events=events)
