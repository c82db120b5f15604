"""Webhook subscriptions."""

from http import HTTPStatus
from typing import Annotated, Any
from uuid import UUID

import msgspec
from litestar import Request, Response, Router, delete, get, patch, post
from litestar.params import Dependency, Parameter

from common import ids, signing
from common.addresses import Policy
from common.database import Connection, Database
from common.job_view import show_optional, show_time
from common.sealing import Sealer
from services.gateway.errors import FINDING, READING, SENDING, document, not_found
from services.gateway.routes.references import parse_cursor, parse_id
from services.gateway.scopes import Scope, needs
from services.gateway.store import Key
from services.gateway.subscriptions import change, check
from services.gateway.webhook_schemas import ChangeWebhook, CreateWebhook, WebhookPage, WebhookView
from services.gateway.webhook_store import NewWebhook, WebhookRow, WebhookStore

HIDDEN = "***"  # a header's value may be a credential

Caller = Request[Key, Any, Any]
OurPolicy = Annotated[Policy, Dependency(skip_validation=True)]  # it has types that msgspec does not convert


@post("/", summary="Subscribe", operation_id="create_webhook", **needs(Scope.ADMIN), responses=document(*SENDING))
async def create_webhook(
    request: Caller, data: CreateWebhook, webhooks: WebhookStore, sealer: Sealer, policy: OurPolicy
) -> Response[WebhookView]:
    """The secret (for ed25519 the public key) is in this answer and in no later one."""
    await check(policy, url=data.url, events=data.events, headers=data.headers)
    secret = signing.new_secret(data.signing)
    row = await webhooks.add(
        NewWebhook(
            id=ids.new(),
            tenant_id=request.user.tenant_id,
            url=data.url,
            events=data.events,
            models=data.models,
            description=data.description,
            headers=sealer.seal(msgspec.json.encode(data.headers)) if data.headers else None,
            signing=data.signing,
            secret=sealer.seal(secret.encode()),
            rate_limit=data.rate_limit,
        )
    )
    view = show_secret(view_webhook(row, sealer), secret)
    return Response(view, headers={"Location": f"/v1/webhooks/{view.id}"})


@get(
    "/",
    summary="Your subscriptions",
    operation_id="list_webhooks",
    **needs(Scope.READ),
    responses=document(*READING),
)
async def list_webhooks(
    request: Caller,
    webhooks: WebhookStore,
    sealer: Sealer,
    limit: Annotated[int, Parameter(ge=1, le=1000)] = 100,
    cursor: str | None = None,
) -> WebhookPage:
    """Oldest first; pass `next_cursor` as `cursor` for the next page."""
    rows = await webhooks.list(request.user.tenant_id, parse_cursor(ids.Kind.WEBHOOK, cursor), limit + 1)
    items = [view_webhook(row, sealer) for row in rows[:limit]]
    return WebhookPage(items, items[-1].id if len(rows) > limit else None)


@get(
    "/{webhook_id:str}",
    summary="A subscription",
    operation_id="get_webhook",
    **needs(Scope.READ),
    responses=document(*FINDING),
)
async def get_webhook(request: Caller, webhook_id: str, webhooks: WebhookStore, sealer: Sealer) -> WebhookView:
    row = await webhooks.find(parse_id(ids.Kind.WEBHOOK, webhook_id), request.user.tenant_id)
    if row is None:
        raise not_found("webhook")
    return view_webhook(row, sealer)


@patch(
    "/{webhook_id:str}",
    summary="Change a subscription",
    operation_id="change_webhook",
    **needs(Scope.ADMIN),
    responses=document(*SENDING, HTTPStatus.NOT_FOUND),
)
async def change_webhook(
    request: Caller,
    webhook_id: str,
    data: ChangeWebhook,
    webhooks: WebhookStore,
    database: Database,
    sealer: Sealer,
    policy: OurPolicy,
) -> WebhookView:
    """What is left out stays; null empties a field that may be empty. What is pending goes to the new URL."""
    await check(policy, url=data.url, events=data.events, headers=data.headers)
    async with database.transaction() as connection:
        row = await lock(webhooks, connection, webhook_id, request.user.tenant_id)
        row = change(row, data, sealer)
        await webhooks.update(connection, row)
    return view_webhook(row, sealer)


@delete(
    "/{webhook_id:str}",
    summary="Unsubscribe",
    operation_id="delete_webhook",
    **needs(Scope.ADMIN),
    responses=document(*FINDING),
)
async def delete_webhook(request: Caller, webhook_id: str, webhooks: WebhookStore, database: Database) -> None:
    """What is still pending for it is dropped."""
    async with database.transaction() as connection:
        row = await lock(webhooks, connection, webhook_id, request.user.tenant_id)
        await webhooks.delete(connection, row.id)


async def lock(webhooks: WebhookStore, connection: Connection, webhook_id: str, tenant_id: UUID) -> WebhookRow:
    """As the store's, of an id as clients have it; raises Problem (404)."""
    row = await webhooks.lock(connection, parse_id(ids.Kind.WEBHOOK, webhook_id), tenant_id)
    if row is None:
        raise not_found("webhook")
    return row


def view_webhook(row: WebhookRow, sealer: Sealer) -> WebhookView:
    names = msgspec.json.decode(sealer.open(row.headers), type=dict[str, str]) if row.headers else {}
    public: str | msgspec.UnsetType = msgspec.UNSET
    if row.signing == "ed25519":
        public = signing.public_key(sealer.open(row.secret).decode())
    return WebhookView(
        id=ids.show(ids.Kind.WEBHOOK, row.id),
        url=row.url,
        events=row.events,
        models=row.models,
        description=row.description,
        headers=dict.fromkeys(names, HIDDEN) if names else None,
        signing=row.signing,
        rate_limit=row.rate_limit,
        status="enabled" if row.disabled_at is None else "disabled",
        disabled_at=show_optional(row.disabled_at),
        disabled_reason=row.disabled_reason,
        created_at=show_time(row.created_at),
        public_key=public,
    )


def show_secret(view: WebhookView, secret: str) -> WebhookView:
    """What the receiver verifies with: the secret itself, or the public half of one that never leaves us."""
    if view.signing == "hmac":
        return msgspec.structs.replace(view, secret=secret)
    public = signing.public_key(secret)
    return msgspec.structs.replace(view, secret=public, public_key=public)


router = Router(
    "/webhooks",
    route_handlers=[create_webhook, list_webhooks, get_webhook, change_webhook, delete_webhook],
    tags=["Webhooks"],
)
