"""HTTP route of the audit log."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import msgspec
from litestar import Request, Router, get
from litestar.di import NamedDependency, Provide
from litestar.params import Parameter, SkipValidation

from common import ids
from common.postgres.audit_log import TenantAction
from common.views.job import format_time
from services.gateway.admin.audit.schemas import AuditEntryView, AuditPage
from services.gateway.admin.audit.store import NEWEST, AuditRow, AuditStore
from services.gateway.auth.scopes import Scope, needs
from services.gateway.auth.store import Key
from services.gateway.http.pagination import Cursor, ListFilter, decode_cursor, encode_cursor
from services.gateway.http.parameters import CursorParameter, Limit, make_time_filter, read_time, wrong_cursor
from services.gateway.http.problems import ANY_CALL, document, invalid
from services.gateway.http.validation.timestamps import EARLIEST, bound

Caller = Request[Key, Any, Any]


class AuditFilter(ListFilter, frozen=True, kw_only=True, tag="audit_log"):
    action: TenantAction | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True)
class AuditServices:
    store: AuditStore


Services = NamedDependency[SkipValidation[AuditServices]]


@get(
    "/audit-log",
    summary="List who changed what",
    operation_id="list_audit_log",
    **needs(Scope.READ),
    responses=document(*ANY_CALL),
)
async def list_audit_log(
    request: Caller,
    services: Services,
    action: Annotated[TenantAction | None, Parameter(description="Only changes of this kind.")] = None,
    since: Annotated[str | None, make_time_filter("Only changes made at this time or later.")] = None,
    until: Annotated[str | None, make_time_filter("Only changes made before this time.")] = None,
    limit: Limit = 100,
    cursor: CursorParameter = None,
) -> AuditPage:
    """Return the changes to your keys, webhooks, secrets, pipelines and limits, newest first.

    Pass `next_cursor` as `cursor`, with the same filter, to get the next page.
    """
    tenant_id = request.user.tenant_id
    filters = AuditFilter(action=action, since=read_time("since", since), until=read_time("until", until))
    place = read_place(cursor, tenant_id, filters)
    earliest = bound(filters.since) if filters.since else EARLIEST
    rows = await services.store.list(tenant_id, place, limit + 1, since=earliest, action=action)
    last = rows[limit - 1].cursor if len(rows) > limit else None
    return AuditPage([view(row) for row in rows[:limit]], encode_cursor(last, tenant_id, filters) if last else None)


def read_place(cursor: str | None, tenant_id: UUID, filters: AuditFilter) -> Cursor:
    """Return where the page begins. Raises Problem (422) for an invalid cursor."""
    if not cursor:
        return NEWEST if filters.until is None else NEWEST._replace(created_at=bound(filters.until))
    place = decode_cursor(cursor, tenant_id, filters)
    if place is None:
        raise invalid(wrong_cursor())
    return place


def view(row: AuditRow) -> AuditEntryView:
    return AuditEntryView(
        id=ids.encode(ids.Kind.AUDIT_ENTRY, row.id),
        at=format_time(row.at),
        actor=row.actor,
        action=row.action,
        target=row.target,
        changes=msgspec.Raw(row.changes.encode()),
    )


def make_router(services: AuditServices) -> Router:
    return Router(
        "/",
        route_handlers=[list_audit_log],
        dependencies={"services": Provide(lambda: services, sync_to_thread=False)},
        tags=["Audit log"],
    )
