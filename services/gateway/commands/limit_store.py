"""The SQL statements about the limits of models and tenants, one function each."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from common.postgres import sql
from common.postgres.database import Database

QUERIES = sql.load("services.gateway.commands", "limits.sql")


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

    async def set_model(
        self, model: str, max_running: int | None, max_running_per_tenant: int | None, *, paused: bool
    ) -> None:
        values = model, max_running, max_running_per_tenant, paused
        async with self._database.transaction() as connection:
            await connection.execute(QUERIES["set_model_limits"], *values)
            await connection.execute(QUERIES["remove_model_limits"], model)

    async def find_tenant(self, name: str) -> TenantLimits | None:
        record = await self._database.fetch_one(QUERIES["find_tenant_limits"], name)
        return None if record is None else TenantLimits(*record.values())

    async def pause_tenant(self, tenant_id: UUID, *, paused: bool) -> None:
        await self._database.fetch(QUERIES["set_tenant_paused"], tenant_id, paused)

    async def set_retention(self, tenant_id: UUID, seconds: float | None) -> None:
        await self._database.fetch(QUERIES["set_tenant_retention"], tenant_id, seconds)
