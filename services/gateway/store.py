"""The gateway's statements, one function each."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import asyncpg
import msgspec

from common import sql
from common.database import Connection, Database, columns
from common.job_view import JobRow, WebhookStatus, read_job
from common.jobs import Priority, Status
from common.outbox import OutboxRow
from common.tensors import Signature
from services.gateway.scopes import ALL, Scope

QUERIES = sql.load("services.gateway")
CLASSES = tuple(Priority)  # the highest first
FARTHEST = 10_000  # jobs counted before one
MOST_TENANTS = 100  # whose turns are counted


class Key(NamedTuple):
    """An API key that is valid, whose it is, and what it may do."""

    id: UUID
    tenant_id: UUID
    scopes: frozenset[Scope] = ALL
    rate_limit: int | None = None  # requests a second, 0 for any number; None: as the gateway is set
    stale: bool = False  # its last use is to be noted
    recalled: bool = False  # it was valid when it was looked up last, see Keyring.recall


class ModelVersion(msgspec.Struct, frozen=True):
    """A row of the catalogue; shapes include the batch dimension."""

    name: str
    version: str
    ready: bool
    decoupled: bool
    max_batch_size: int
    inputs: list[Signature]
    outputs: list[Signature]


class NewJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job to be added; times in seconds, payloads as bytes, `message` its doorbell."""

    id: UUID
    tenant_id: UUID
    model: str
    version: str | None
    priority: Priority
    max_attempts: int
    run_at: datetime | None
    expires_in: float | None
    timeout: float
    initial_delay: float
    max_delay: float
    fallback_model: str | None
    traceparent: str
    tensors: bytes
    parameters: bytes | None
    metadata: bytes | None
    callback_url: str | None
    callback_events: Sequence[str] | None
    message: OutboxRow
    idempotency_key: str | None = None
    fingerprint: bytes | None = None  # with a key: SHA-256 of the request's body
    batch_id: UUID | None = None
    key_id: UUID | None = None  # of the caller, where it must be found valid


class Times(NamedTuple):
    """What the database's clock said."""

    created_at: datetime
    run_at: datetime
    expires_at: datetime | None


class FoundJob(NamedTuple):
    row: JobRow
    outputs: bytes | None
    webhook_status: WebhookStatus
    queue_position: int | None
    erased: bool


def read_model(record: asyncpg.Record) -> ModelVersion:
    inputs = msgspec.json.decode(record["inputs"], type=list[Signature])
    outputs = msgspec.json.decode(record["outputs"], type=list[Signature])
    return ModelVersion(
        *(record["name"], record["version"], record["ready"], record["decoupled"], record["max_batch_size"]),
        *(inputs, outputs),
    )


def read_key(record: asyncpg.Record) -> Key:
    scopes = frozenset(map(Scope, record["scopes"]))
    return Key(record["id"], record["tenant_id"], scopes, record["rate_limit"], record["stale"])


async def add_jobs(connection: Connection, jobs: Sequence[NewJob]) -> dict[UUID, Times]:
    """In one statement; see Store.submit_jobs."""
    rows = [
        (
            *(job.id, job.tenant_id, job.model, job.version, job.priority, job.max_attempts, job.run_at),
            *(job.expires_in, job.timeout, job.initial_delay, job.max_delay),
            *(job.fallback_model, job.traceparent),
            *(job.tensors, job.parameters, job.metadata, job.callback_url),
            None if job.callback_events is None else ",".join(job.callback_events),
            *(job.message.id, job.message.exchange, job.message.routing_key, job.message.body),
            *(job.idempotency_key, job.fingerprint, job.batch_id, job.key_id),
        )
        for job in jobs
    ]
    found = await connection.fetch(QUERIES["submit_jobs"], *columns(rows, 26))
    return {record["id"]: Times(record["created_at"], record["run_at"], record["expires_at"]) for record in found}


class Store:
    def __init__(self, database: Database) -> None:
        self.database = database

    async def find_keys(self, hashes: Sequence[bytes]) -> dict[bytes, Key]:
        found = await self.database.fetch(QUERIES["find_keys"], hashes)
        return {record["key_hash"]: read_key(record) for record in found}

    async def note_uses(self, keys: Sequence[UUID]) -> None:
        await self.database.fetch(QUERIES["note_uses"], keys)

    async def add_tenant(self, tenant_id: UUID, name: str, sealed_secret: bytes) -> None:
        """Nothing where there is one of that name."""
        await self.database.fetch(QUERIES["add_tenant"], tenant_id, name, sealed_secret)

    async def find_tenant(self, name: str) -> UUID | None:
        record = await self.database.fetch_one(QUERIES["find_tenant"], name)
        return record["id"] if record else None

    async def add_key(
        self,
        key_id: UUID,
        tenant_id: UUID,
        name: str,
        key_hash: bytes,
        scopes: Collection[Scope] = ALL,
        rate_limit: int | None = None,
    ) -> None:
        """Nothing where the key is there already."""
        await self.database.fetch(
            QUERIES["add_key"], key_id, tenant_id, name, key_hash, [str(scope) for scope in scopes], rate_limit
        )

    async def list_models(self) -> list[ModelVersion]:
        return [read_model(record) for record in await self.database.fetch(QUERIES["list_models"])]

    async def count_queued(self) -> dict[tuple[str, str], int]:
        """Waiting jobs by (model, priority)."""
        found = await self.database.fetch(QUERIES["count_queued"])
        return {(record["model"], record["priority"]): record["jobs"] for record in found}

    async def submit_jobs(self, jobs: Sequence[NewJob]) -> dict[UUID, Times]:
        """All or none, but for those whose idempotency key is used, or whose caller's key is not valid: they are left
        out of the answer."""
        async with self.database.acquire() as connection:
            return await add_jobs(connection, jobs)

    async def find_job(self, job_id: UUID, tenant_id: UUID) -> FoundJob | None:
        record = await self.database.fetch_one(QUERIES["find_job"], job_id, tenant_id)
        if record is None:
            return None
        row = read_job(dict(record))
        position = await self.find_position(row) if row.status is Status.QUEUED else None
        return FoundJob(
            *(row, record["outputs"], record["webhook_status"], position),
            erased=record["erased_at"] is not None,
        )

    async def find_position(self, job: JobRow) -> int | None:
        """Where a waiting job is in its queue, from 1, as things are; at most FARTHEST + 1."""
        above = CLASSES[: CLASSES.index(job.priority)]
        values = (job.model, job.priority, job.tenant_id, job.id, above, FARTHEST, MOST_TENANTS)
        record = await self.database.fetch_one(QUERIES["find_position"], *values)
        return record["position"] if record else None

    async def find_outputs(self, job_id: UUID) -> bytes | None:
        """The JSON list of a job's outputs, where it succeeded."""
        record = await self.database.fetch_one(QUERIES["find_outputs"], job_id)
        return record["outputs"] if record else None
