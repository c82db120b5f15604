"""Records who changed what. An entry is added in the transaction of its change, so no change is without one.

An entry never has a secret, the value of a header, or a payload.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias
from uuid import UUID

import msgspec

from common import ids
from common.postgres import sql
from common.postgres.database import Connection, to_columns

QUERIES = sql.load("common.postgres", "audit_log.sql")

TenantAction: TypeAlias = Literal[
    "tenant.created",
    "tenant.updated",
    "tenant.paused",
    "tenant.resumed",
    "key.created",
    "key.revoked",
    "secret.rotated",
    "webhook.created",
    "webhook.updated",
    "webhook.deleted",
    "webhook.rotated",
    "webhook.enabled",
    "webhook.disabled",
    "pipeline.created",
    "pipeline.updated",
    "pipeline.deleted",
]
# A change of a model concerns every tenant, so no tenant sees it.
Action: TypeAlias = Literal[TenantAction, "model.updated", "model.paused", "model.resumed"]


class AuditEntry(NamedTuple):
    """A change to record. `changes` has the new value of each changed field."""

    tenant_id: UUID | None  # None: it concerns every tenant
    actor: str  # the public id of a key, a command such as `keys revoke`, or a service
    action: Action
    target: str  # a public id, or the name of a model or a pipeline
    changes: Mapping[str, object] = {}


async def add_entries(connection: Connection, entries: Sequence[AuditEntry]) -> None:
    """Add entries in the transaction of their changes."""
    if entries:
        rows = [
            (
                ids.new(),
                each.tenant_id,
                each.actor,
                each.action,
                each.target,
                msgspec.json.encode(each.changes).decode(),
            )
            for each in entries
        ]
        await connection.execute(QUERIES["add_audit_entries"], *to_columns(rows, 6))
