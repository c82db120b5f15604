"""HTTP route of a tenant's usage."""

from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any
from uuid import UUID

import msgspec
from litestar import Request, Router, get
from litestar.di import NamedDependency, Provide
from litestar.params import Parameter, SkipValidation

from services.gateway.auth.scopes import Scope, needs
from services.gateway.auth.store import Key
from services.gateway.http.pagination import ListFilter, open_cursor, seal_cursor
from services.gateway.http.parameters import CursorParameter, Limit, ModelFilter, wrong_cursor
from services.gateway.http.problems import ANY_CALL, FieldError, document, invalid
from services.gateway.http.validation.allowed_values import show
from services.gateway.reports.usage.schemas import EndedJobs, UsagePage, UsageView
from services.gateway.reports.usage.store import UsageCursor, UsageRow, UsageStore

Caller = Request[Key, Any, Any]
DAY_LENGTH = len("2026-11-22")
DATE = {"format": "date"}


class UsageFilter(ListFilter, frozen=True, kw_only=True, tag="usage"):
    since: date | None = None
    until: date | None = None
    model: str | None = None


@dataclass(frozen=True)
class UsageServices:
    store: UsageStore


Services = NamedDependency[SkipValidation[UsageServices]]


@get("/usage", summary="List your usage", operation_id="list_usage", **needs(Scope.READ), responses=document(*ANY_CALL))
async def list_usage(
    request: Caller,
    services: Services,
    since: Annotated[str | None, Parameter(schema_extra=DATE, description="From this day on, in UTC.")] = None,
    until: Annotated[str | None, Parameter(schema_extra=DATE, description="Before this day, in UTC.")] = None,
    model: ModelFilter = None,
    limit: Limit = 100,
    cursor: CursorParameter = None,
) -> UsagePage:
    """Return ended jobs, inference seconds, bytes and tokens by day and model, newest day first.

    The numbers are a few seconds old. Pass `next_cursor` as `cursor`, with the same filter, to get the next page.
    """
    tenant_id = request.user.tenant_id
    filters = UsageFilter(since=read_day("since", since), until=read_day("until", until), model=model)
    place = UsageCursor(filters.until or date.max, "")
    if cursor:
        place = decode_cursor(cursor, tenant_id, filters)
    rows = await services.store.list(tenant_id, place, filters.since or date.min, model, limit + 1)
    last = rows[limit - 1] if len(rows) > limit else None
    return UsagePage([view(row) for row in rows[:limit]], encode_cursor(last, tenant_id, filters) if last else None)


def view(row: UsageRow) -> UsageView:
    return UsageView(
        day=row.day.isoformat(),
        model=row.model,
        jobs=EndedJobs(row.succeeded, row.failed, row.canceled, row.expired, row.reused),
        inference_seconds=round(row.inference_seconds, 3),
        bytes_in=row.bytes_in,
        bytes_out=row.bytes_out,
        prompt_tokens=row.prompt_tokens,
        completion_tokens=row.completion_tokens,
    )


def read_day(name: str, text: str | None) -> date | None:
    """Return the day. Raises Problem (422) for anything but an RFC 3339 date."""
    try:
        return None if text is None else msgspec.convert(text, date)
    except msgspec.ValidationError as error:
        raise invalid(FieldError(name, f"must be a day like 2026-12-01, got {show(text)}")) from error


def encode_cursor(row: UsageRow, tenant_id: UUID, filters: UsageFilter) -> str:
    return seal_cursor(f"{row.day.isoformat()}{row.model}".encode(), tenant_id, filters)


def decode_cursor(text: str, tenant_id: UUID, filters: UsageFilter) -> UsageCursor:
    """Return the place. Raises Problem (422) for an invalid cursor."""
    raw = open_cursor(text, tenant_id, filters)
    if raw is None:
        raise invalid(wrong_cursor())
    try:
        found = raw.decode()
        place = UsageCursor(date.fromisoformat(found[:DAY_LENGTH]), found[DAY_LENGTH:])
    except ValueError as error:  # also invalid UTF-8
        raise invalid(wrong_cursor()) from error
    if "\0" in place.model:
        raise invalid(wrong_cursor())
    return place


def make_router(services: UsageServices) -> Router:
    return Router(
        "/",
        route_handlers=[list_usage],
        dependencies={"services": Provide(lambda: services, sync_to_thread=False)},
        tags=["Usage"],
    )
