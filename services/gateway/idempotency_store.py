"""The statements about idempotency keys, one function each. Those of jobs are written along with the jobs."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, TypeAlias
from uuid import UUID

from common import sql
from common.database import Connection, Database, columns

QUERIES = sql.load("services.gateway", "idempotency.sql")

Name: TypeAlias = tuple[UUID, str]  # a key, and whose it is


class Label(NamedTuple):
    """What a client calls its request, and the SHA-256 of that request's body."""

    key: str
    fingerprint: bytes


class Named(NamedTuple):
    """What a key stands for, as it was first answered. Of a job there are times, of a batch an answer."""

    id: UUID
    is_batch: bool
    fingerprint: bytes
    created_at: datetime
    run_at: datetime | None
    expires_at: datetime | None
    traceparent: str
    answer: bytes | None
    erased: bool


class IdempotencyStore:
    def __init__(self, database: Database) -> None:
        self.database = database

    async def find_named(self, names: Sequence[Name]) -> dict[Name, Named]:
        """What was accepted under them within a day."""
        found = await self.database.fetch(QUERIES["find_named"], *columns(names, 2))
        return {
            (record["tenant_id"], record["key"]): Named(
                record["job_id"] or record["batch_id"],
                record["batch_id"] is not None,
                record["fingerprint"],
                *(record["created_at"], record["run_at"], record["expires_at"]),
                *(record["traceparent"], record["answer"], record["erased"]),
            )
            for record in found
        }


async def hold_key(connection: Connection, tenant_id: UUID, key: str) -> bool:
    """To the end of the transaction; False where somebody else does."""
    held: bool = await connection.fetchval(QUERIES["hold_key"], tenant_id, key)
    return held


async def name_batch(
    connection: Connection, tenant_id: UUID, label: Label, batch_id: UUID, traceparent: str, answer: bytes
) -> bool:
    """False, and nothing done, where the key stands for something else."""
    values = (tenant_id, *label, batch_id, traceparent, answer)
    return await connection.fetchval(QUERIES["name_batch"], *values) is not None
