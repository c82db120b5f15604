"""The SQL statements about the limits of models and tenants, one function each."""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from common import ids
from common.postgres import sql
from common.postgres.audit_log import Action, AuditEntry, add_entries
from common.postgres.database import Database

QUERIES = sql.load("services.gateway.commands.limits")


class SetLimits(NamedTuple):
    """What an operator may set for a model."""

    max_running: int | None
    max_running_per_tenant: int | None
    paused: bool


class ModelLimits(NamedTuple):
    """What is set for a model. `known`: the model is in the catalogue."""

    max_running: int | None
    max_running_per_tenant: int | None
    paused_at: datetime | None
    known: bool


class TenantLimits(NamedTuple):
    """What is set for a tenant."""

    id: UUID
    paused_at: datetime | None
    retention: float | None  # seconds


class LimitStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_model(self, model: str) -> ModelLimits:
        record = await self._database.fetch_one(QUERIES["find_model_limits"], model)
        assert record is not None, "the query returns one row"
        return ModelLimits(*record.values())

    async def change_model(self, model: str, change: Callable[[SetLimits], SetLimits]) -> None:
        """Apply a change to what is set for a model."""
        async with self._database.transaction() as connection:
            record = await connection.fetchrow(QUERIES["lock_model_limits"], model)
            assert record is not None, "an INSERT … RETURNING returns its row"
            before = SetLimits(*record.values())
            after = change(before)
            await connection.execute(QUERIES["set_model_limits"], model, *after)
            await connection.execute(QUERIES["remove_model_limits"], model)
            await add_entries(connection, list_entries(model, before, after))

    async def find_tenant(self, name: str) -> TenantLimits | None:
        record = await self._database.fetch_one(QUERIES["find_tenant_limits"], name)
        return None if record is None else TenantLimits(*record.values())

    async def pause_tenant(self, tenant_id: UUID, *, paused: bool) -> None:
        async with self._database.transaction() as connection:
            if await connection.fetchval(QUERIES["set_tenant_paused"], tenant_id, paused) is not None:
                target = ids.encode(ids.Kind.TENANT, tenant_id)
                action: Action = "tenant.paused" if paused else "tenant.resumed"
                await add_entries(connection, [AuditEntry(tenant_id, "limits tenant", action, target)])

    async def set_retention(self, tenant_id: UUID, seconds: float | None) -> None:
        async with self._database.transaction() as connection:
            if await connection.fetchval(QUERIES["set_tenant_retention"], tenant_id, seconds) is not None:
                target, changes = ids.encode(ids.Kind.TENANT, tenant_id), {"retention": seconds}
                await add_entries(
                    connection, [AuditEntry(tenant_id, "limits tenant", "tenant.updated", target, changes)]
                )


def list_entries(model: str, before: SetLimits, after: SetLimits) -> list[AuditEntry]:
    """Return the entries of a change to what is set for a model."""
    limits = {
        name: getattr(after, name)
        for name in ("max_running", "max_running_per_tenant")
        if getattr(after, name) != getattr(before, name)
    }
    entries = [AuditEntry(None, "limits model", "model.updated", model, limits)] if limits else []
    if after.paused != before.paused:
        entries.append(AuditEntry(None, "limits model", "model.paused" if after.paused else "model.resumed", model))
    return entries
