"""HTTP route of a tenant's usage."""

import base64
import binascii
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Annotated, Any

import msgspec
from litestar import Request, Router, get
from litestar.di import NamedDependency, Provide
from litestar.params import Parameter, SkipValidation

from services.gateway.auth.scopes import Scope, needs
from services.gateway.auth.store import Key
from services.gateway.http.parameters import NameFilter
from services.gateway.http.problems import ANY_CALL, FieldError, document, invalid
from services.gateway.usage.schemas import EndedJobs, UsagePage, UsageView
from services.gateway.usage.store import Place, UsageRow, UsageStore

Caller = Request[Key, Any, Any]
DAY_LENGTH = len("2026-11-22")
DATE = {"format": "date"}
LAST_DAY = date(9999, 12, 30)


@dataclass(frozen=True)
class UsageServices:
    store: UsageStore


Services = NamedDependency[SkipValidation[UsageServices]]


@get("/usage", summary="List your usage", operation_id="list_usage", **needs(Scope.READ), responses=document(*ANY_CALL))
async def list_usage(
    request: Caller,
    services: Services,
    since: Annotated[str | None, Parameter(schema_extra=DATE, description="the first day, in UTC")] = None,
    until: Annotated[str | None, Parameter(schema_extra=DATE, description="the last day, in UTC")] = None,
    model: NameFilter = None,
    limit: Annotated[int, Parameter(ge=1, le=1000)] = 100,
    cursor: str | None = None,
) -> UsagePage:
    """Return ended jobs, inference seconds and bytes by day and model, newest day first.

    The numbers are a few seconds old. Pass `next_cursor` as `cursor`, with the same filter, to get the next page.
    """
    first, last = read_day("since", since) or date.min, read_day("until", until) or LAST_DAY
    place = Place(min(last, LAST_DAY) + timedelta(days=1), "")
    if cursor:
        place = min(place, decode_cursor(cursor))
    rows = await services.store.list(request.user.tenant_id, place, first, model, limit + 1)
    more = len(rows) > limit
    return UsagePage([view(row) for row in rows[:limit]], encode_cursor(rows[limit - 1]) if more else None)


def view(row: UsageRow) -> UsageView:
    return UsageView(
        day=row.day.isoformat(),
        model=row.model,
        jobs=EndedJobs(row.succeeded, row.failed, row.canceled, row.expired),
        inference_seconds=round(row.inference_seconds, 3),
        bytes_in=row.bytes_in,
        bytes_out=row.bytes_out,
    )


def read_day(name: str, text: str | None) -> date | None:
    """Return the day. Raises Problem (422) for anything but an RFC 3339 date."""
    try:
        return None if text is None else msgspec.convert(text, date)
    except msgspec.ValidationError as error:
        raise invalid(FieldError(name, str(error))) from error


def encode_cursor(row: UsageRow) -> str:
    return base64.urlsafe_b64encode(f"{row.day.isoformat()}{row.model}".encode()).rstrip(b"=").decode()


def decode_cursor(text: str) -> Place:
    """Return the place. Raises Problem (422) for an invalid cursor."""
    try:
        raw = base64.b64decode(text.encode() + b"=" * (-len(text) % 4), altchars=b"-_", validate=True).decode()
        day, model = date.fromisoformat(raw[:DAY_LENGTH]), raw[DAY_LENGTH:]
    except (binascii.Error, ValueError) as error:
        raise invalid(FieldError("cursor", "invalid cursor")) from error
    if "\0" in model:
        raise invalid(FieldError("cursor", "invalid cursor"))
    return Place(day, model)


def make_router(services: UsageServices) -> Router:
    return Router(
        "/",
        route_handlers=[list_usage],
        dependencies={"services": Provide(lambda: services, sync_to_thread=False)},
        tags=["Usage"],
    )
