"""HTTP routes of a tenant's API keys."""

from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any
from uuid import UUID

import msgspec
from litestar import Request, Response, Router, delete, get, post
from litestar.di import NamedDependency, Provide
from litestar.params import SkipValidation

from common import ids
from common.telemetry.logs import Log
from common.views.job import format_optional_time, format_time
from services.gateway.admin.keys.delegation import grant_expiry, grant_models, grant_rate
from services.gateway.admin.keys.revocation import RevocationAnnouncer
from services.gateway.admin.keys.schemas import CreateKey, KeyPage, KeyView
from services.gateway.auth.authentication import hash_key, new_key
from services.gateway.auth.scopes import Scope, needs, read_scopes
from services.gateway.auth.store import Key, KeyRow, KeyStore
from services.gateway.http.parameters import CursorParameter, Limit, parse_cursor, parse_id
from services.gateway.http.problems import (
    ANY_CALL,
    WITH_BODY,
    WITH_ID,
    FieldError,
    conflict,
    document,
    invalid,
    limit_reached,
    not_found,
)
from services.gateway.http.telemetry import identify_caller
from services.gateway.http.validation.timestamps import bound_optional

Caller = Request[Key, Any, Any]
MAX_KEYS = 1000  # of a tenant, without revoked and expired ones

MAX_MAKERS = 5  # a request takes a permit of each

log = Log("key")


@dataclass(frozen=True)
class KeyServices:
    store: KeyStore
    default_rate: int  # requests a second of a key without a limit of its own; 0: no limit
    announcer: RevocationAnnouncer


Services = NamedDependency[SkipValidation[KeyServices]]


@post(
    "/keys",
    summary="Make a key",
    operation_id="create_key",
    **needs(Scope.ADMIN),
    responses=document(*WITH_BODY, HTTPStatus.CONFLICT, conflict="`limit_reached`: too many keys"),
)
async def create_key(request: Caller, data: CreateKey, services: Services) -> Response[KeyView]:
    """Make a key of your tenant. Only this answer has the key itself.

    The new key cannot have more models, a higher rate limit or a later expiry than the calling key: that gets 403. Both
    together have the rate limit of the calling key, and the new key is revoked with it. A tenant may have 1,000 keys,
    without revoked and expired ones. A key that five keys made after each other makes none.
    """
    caller = request.user
    expires_at = bound_optional(data.expires_at)
    if expires_at is not None and expires_at <= datetime.now(UTC):
        raise invalid(FieldError("/expires_at", "is in the past; give a later time, or null"))
    if len(caller.makers) >= MAX_MAKERS:
        raise limit_reached(
            f"{MAX_MAKERS} keys made this one after each other, the most there may be; use one of those"
        )
    models = grant_models(caller.models, data.models)
    rate_limit = grant_rate(caller.rate_limit, data.rate_limit, services.default_rate)
    expires_at = grant_expiry((await find_key(services, caller.id, caller)).expires_at, expires_at)
    if await services.store.count_active(caller.tenant_id) >= MAX_KEYS:
        raise limit_reached(f"the tenant has {MAX_KEYS} keys, the most it may have; revoke one")
    key_id, key = ids.new(), new_key()
    own = data.name, hash_key(key), frozenset(data.scopes), rate_limit, models, expires_at
    makers = *caller.makers, caller.id
    await services.store.add_key(key_id, caller.tenant_id, *own, makers=makers, actor=caller.actor)
    shown = ids.encode(ids.Kind.KEY, key_id)
    log.info("key.created", key_id=shown, **identify_caller(request))
    made = view(await find_key(services, key_id, caller))
    return Response(msgspec.structs.replace(made, key=key), headers={"Location": f"/v1/keys/{shown}"})


@get(
    "/keys",
    summary="List your keys",
    operation_id="list_keys",
    **needs(Scope.ADMIN),
    responses=document(*ANY_CALL),
)
async def list_keys(request: Caller, services: Services, limit: Limit = 100, cursor: CursorParameter = None) -> KeyPage:
    """Return the keys that are not revoked, oldest first, without the keys themselves.

    Pass `next_cursor` as `cursor` to get the next page.
    """
    after = parse_cursor(ids.Kind.KEY, cursor) or UUID(int=0)
    rows = await services.store.list_active(request.user.tenant_id, after, limit + 1)
    items = [view(row) for row in rows[:limit]]
    return KeyPage(items, items[-1].id if len(rows) > limit else None)


@get(
    "/keys/{key_id:str}",
    summary="Get a key",
    operation_id="get_key",
    **needs(Scope.ADMIN),
    responses=document(*WITH_ID),
)
async def get_key(request: Caller, key_id: str, services: Services) -> KeyView:
    """Return a key that is not revoked, without the key itself."""
    return view(await find_key(services, parse_id(ids.Kind.KEY, key_id), request.user))


@delete(
    "/keys/{key_id:str}",
    summary="Revoke a key",
    operation_id="revoke_key",
    **needs(Scope.ADMIN),
    responses=document(*WITH_ID, HTTPStatus.CONFLICT),
)
async def revoke_key(request: Caller, key_id: str, services: Services) -> None:
    """Revoke a key and those that it made, for good. Every gateway refuses them at once. Their streams and waits end.

    A key cannot revoke itself: that gets 409, so that no tenant locks itself out.
    """
    parsed = parse_id(ids.Kind.KEY, key_id)
    if parsed in (request.user.id, *request.user.makers):
        what = "itself" if parsed == request.user.id else "the key that made it"
        raise conflict(f"a key cannot revoke {what}; use another key of this tenant, or ask your operator")
    if not await services.store.revoke_own(parsed, request.user.tenant_id, actor=request.user.actor):
        raise not_found("key")
    log.info("key.revoked", key_id=key_id, **identify_caller(request))
    await services.announcer.announce()


async def find_key(services: KeyServices, key_id: UUID, caller: Key) -> KeyRow:
    """Return a key of the caller's tenant. Raises Problem (404)."""
    row = await services.store.find_active(key_id, caller.tenant_id)
    if row is None:
        raise not_found("key")
    return row


def view(row: KeyRow) -> KeyView:
    return KeyView(
        id=ids.encode(ids.Kind.KEY, row.id),
        name=row.name,
        scopes=sorted(read_scopes(row.scopes)),
        models=row.models,
        rate_limit=row.rate_limit,
        created_at=format_time(row.created_at),
        expires_at=format_optional_time(row.expires_at),
        last_used_at=format_optional_time(row.last_used_at),
        made_by=None if row.made_by is None else ids.encode(ids.Kind.KEY, row.made_by),
    )


def make_router(services: KeyServices) -> Router:
    return Router(
        "/",
        route_handlers=[create_key, list_keys, get_key, revoke_key],
        dependencies={"services": Provide(lambda: services, sync_to_thread=False)},
        tags=["Keys"],
    )
