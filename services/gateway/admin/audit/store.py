"""Reads the audit log."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from common.postgres import sql
from common.postgres.audit_log import Action
from common.postgres.database import Database
from services.gateway.http.pagination import Cursor
from services.gateway.http.validation.timestamps import EARLIEST, LATEST

QUERIES = sql.load("services.gateway.admin.audit")
NEWEST = Cursor(LATEST, UUID(int=0))


class AuditRow(NamedTuple):
    """A recorded change. `changes` is a JSON object."""

    id: UUID
    tenant_id: UUID | None
    at: datetime
    actor: str
    action: Action
    target: str
    changes: str

    @property
    def cursor(self) -> Cursor:
        return Cursor(self.at, self.id)


class AuditStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(
        self, tenant_id: UUID, after: Cursor, limit: int, *, since: datetime = EARLIEST, action: Action | None = None
    ) -> list[AuditRow]:
        """Return changes of a tenant after a place, newest first."""
        found = await self._database.fetch(QUERIES["list_audit_log"], tenant_id, *after, since, action, limit)
        return [AuditRow(*record.values()) for record in found]

    async def list_all(self, after: Cursor, limit: int) -> Sequence[AuditRow]:
        """Return changes of all tenants, and of models, after a place, newest first."""
        found = await self._database.fetch(QUERIES["list_whole_audit_log"], *after, limit)
        return [AuditRow(*record.values()) for record in found]
