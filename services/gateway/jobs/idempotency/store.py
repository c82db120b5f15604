"""Reads and writes idempotency keys. The keys of jobs are written by the statement that adds the jobs."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, TypeAlias
from uuid import UUID

from common.postgres import sql
from common.postgres.database import Connection, Database, to_columns

QUERIES = sql.load("services.gateway.jobs.idempotency")

TenantKey: TypeAlias = tuple[UUID, str]  # the tenant's id, and its key


class RequestKey(NamedTuple):
    """The idempotency key of a request, and the SHA-256 of its body."""

    key: str
    fingerprint: bytes


class KeyRecord(NamedTuple):
    """What a key belongs to, as in the first response. A job has times, a batch has an answer."""

    id: UUID
    is_batch: bool
    fingerprint: bytes
    created_at: datetime
    run_at: datetime | None
    expires_at: datetime | None
    traceparent: str
    answer: bytes | None
    erased: bool
    run_version: str | None = None  # of its pipeline, if it is a run
    has_ended: bool = False  # the job took the result of another one at once


class IdempotencyStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_records(self, keys: Sequence[TenantKey]) -> dict[TenantKey, KeyRecord]:
        """Return the records of the keys that were used within a day."""
        found = await self._database.fetch(QUERIES["find_idempotency_keys"], *to_columns(keys, 2))
        return {
            (record["tenant_id"], record["key"]): KeyRecord(
                record["job_id"] or record["batch_id"],
                record["batch_id"] is not None,
                record["fingerprint"],
                record["created_at"],
                record["run_at"],
                record["expires_at"],
                record["traceparent"],
                record["answer"],
                record["erased"],
                record["run_version"],
                record["has_ended"],
            )
            for record in found
        }


async def lock_key(connection: Connection, tenant_id: UUID, key: str) -> bool:
    """Lock a key until the transaction ends. Return False if another transaction holds it."""
    locked: bool = await connection.fetchval(QUERIES["lock_idempotency_key"], tenant_id, key)
    return locked


async def add_batch_key(
    connection: Connection, tenant_id: UUID, key: RequestKey, batch_id: UUID, traceparent: str, answer: bytes
) -> bool:
    """Record that a key belongs to a batch. Return False, and do nothing, if it is in use."""
    values = (tenant_id, *key, batch_id, traceparent, answer)
    return await connection.fetchval(QUERIES["add_batch_key"], *values) is not None
