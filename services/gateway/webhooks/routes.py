"""HTTP routes that create, read, change and delete subscriptions."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any
from uuid import UUID

import msgspec
from litestar import Request, Response, delete, get, patch, post

from common import ids
from common.postgres.audit_log import add_entries
from common.postgres.database import Connection
from common.security import webhook_signatures
from common.security.encryption import Encryptor
from common.views.hidden_query import hide_query
from common.views.job import format_optional_time, format_time
from services.gateway.auth.model_permissions import select_models
from services.gateway.auth.scopes import Scope, needs
from services.gateway.auth.store import Key
from services.gateway.http.parameters import CursorParameter, Limit, parse_cursor, parse_id
from services.gateway.http.problems import (
    ANY_CALL,
    WITH_BODY,
    WITH_ID,
    FieldError,
    Problem,
    document,
    limit_reached,
    not_found,
)
from services.gateway.webhooks.audit_entries import list_changes, make_entry, read_headers, show_fields
from services.gateway.webhooks.dependencies import Services, WebhookServices
from services.gateway.webhooks.schemas import ChangeWebhook, CreateWebhook, WebhookPage, WebhookView
from services.gateway.webhooks.store import NewWebhook, WebhookRow, WebhookStore
from services.gateway.webhooks.subscriptions import (
    HIDDEN,
    apply_change,
    check_subscription,
    complete,
    find_unknown_models,
    restore_hidden,
)

Caller = Request[Key, Any, Any]


@post(
    "/webhooks",
    summary="Create a subscription",
    operation_id="create_webhook",
    **needs(Scope.ADMIN),
    responses=document(*WITH_BODY, HTTPStatus.CONFLICT, conflict="`limit_reached`: too many subscriptions"),
)
async def create_webhook(request: Caller, data: CreateWebhook, services: Services) -> Response[WebhookView]:
    """Subscribe a URL to events. Only this response has the `secret` for `hmac`; the `public_key` of `ed25519` stays.

    A tenant may have `CHARONIA_MAX_WEBHOOKS_PER_TENANT` subscriptions. One more gets 409.
    """
    data = complete(data)
    assert data.events is not msgspec.UNSET, "it is complete"
    await check_subscription(services.policy, data, data.format)
    headers = restore_hidden(data.headers or {}, {})
    warnings = await find_warnings(services, request.user, data.models)
    secret, encryptor = webhook_signatures.new_secret(data.signing), services.encryptor
    webhook_id = ids.new()
    row = await services.webhooks.add(
        NewWebhook(
            id=webhook_id,
            tenant_id=request.user.tenant_id,
            url=data.url,
            events=data.events,
            models=data.models,
            description=data.description,
            headers=encryptor.encrypt(msgspec.json.encode(headers)) if headers else None,
            signing=data.signing,
            secret=encryptor.encrypt(secret.encode()),
            rate_limit=data.rate_limit,
            ordered=data.ordered,
            format=data.format,
        ),
        services.max_webhooks,
        make_entry(request.user, "webhook.created", webhook_id, show_fields(data)),
    )
    if row is None:
        raise too_many_webhooks(services.max_webhooks)
    view = show_secret(view_webhook(row, encryptor, request.user), secret)
    view = add_warnings(view, warnings)
    return Response(view, headers={"Location": f"/v1/webhooks/{view.id}"})


@get(
    "/webhooks",
    summary="List your subscriptions",
    operation_id="list_webhooks",
    **needs(Scope.READ),
    responses=document(*ANY_CALL),
)
async def list_webhooks(
    request: Caller,
    services: Services,
    limit: Limit = 100,
    cursor: CursorParameter = None,
) -> WebhookPage:
    """Return subscriptions, oldest first. Pass `next_cursor` as `cursor` to get the next page."""
    rows = await services.webhooks.list(request.user.tenant_id, parse_cursor(ids.Kind.WEBHOOK, cursor), limit + 1)
    items = [view_webhook(row, services.encryptor, request.user) for row in rows[:limit]]
    return WebhookPage(items, items[-1].id if len(rows) > limit else None)


@get(
    "/webhooks/{webhook_id:str}",
    summary="Get a subscription",
    operation_id="get_webhook",
    **needs(Scope.READ),
    responses=document(*WITH_ID),
)
async def get_webhook(request: Caller, webhook_id: str, services: Services) -> WebhookView:
    """Return the subscription, without its secret and the values of its headers."""
    row = await find_webhook(services.webhooks, webhook_id, request.user.tenant_id)
    return view_webhook(row, services.encryptor, request.user)


@patch(
    "/webhooks/{webhook_id:str}",
    summary="Change a subscription",
    operation_id="change_webhook",
    **needs(Scope.ADMIN),
    responses=document(*WITH_BODY, HTTPStatus.NOT_FOUND),
)
async def change_webhook(request: Caller, webhook_id: str, data: ChangeWebhook, services: Services) -> WebhookView:
    """Change the fields that are given. Null clears an optional field. Pending deliveries go to the new URL."""
    before = await find_webhook(services.webhooks, webhook_id, request.user.tenant_id)
    await check_subscription(services.policy, data, before.format)
    warnings = await find_warnings(services, request.user, data.models)
    async with services.database.transaction() as connection:
        row = await lock_webhook(services.webhooks, connection, webhook_id, request.user.tenant_id)
        changed = apply_change(row, data, services.encryptor)
        await services.webhooks.update(connection, row, changed)
        if changes := list_changes(row, changed, services.encryptor):
            await add_entries(connection, [make_entry(request.user, "webhook.updated", row.id, changes)])
    return add_warnings(view_webhook(changed, services.encryptor, request.user), warnings)


@delete(
    "/webhooks/{webhook_id:str}",
    summary="Delete a subscription",
    operation_id="delete_webhook",
    **needs(Scope.ADMIN),
    responses=document(*WITH_ID),
)
async def delete_webhook(request: Caller, webhook_id: str, services: Services) -> None:
    """Delete the subscription and its pending deliveries."""
    async with services.database.transaction() as connection:
        row = await lock_webhook(services.webhooks, connection, webhook_id, request.user.tenant_id)
        await services.webhooks.delete(connection, row.id)
        entry = make_entry(request.user, "webhook.deleted", row.id, {"url": hide_query(row.url)})
        await add_entries(connection, [entry])


async def find_webhook(webhooks: WebhookStore, webhook_id: str, tenant_id: UUID) -> WebhookRow:
    """Return a subscription by its public id. Raises Problem (404)."""
    row = await webhooks.find(parse_id(ids.Kind.WEBHOOK, webhook_id), tenant_id)
    if row is None:
        raise not_found("webhook")
    return row


async def lock_webhook(webhooks: WebhookStore, connection: Connection, webhook_id: str, tenant_id: UUID) -> WebhookRow:
    """Lock a subscription by its public id. Raises Problem (404)."""
    row = await webhooks.lock(connection, parse_id(ids.Kind.WEBHOOK, webhook_id), tenant_id)
    if row is None:
        raise not_found("webhook")
    return row


def view_webhook(row: WebhookRow, encryptor: Encryptor, caller: Key) -> WebhookView:
    """Return the subscription without its secret. Header values are hidden.

    The query of its URL may be a credential, too. Only keys that may change the subscription see it.
    """
    names = read_headers(row, encryptor)
    public: str | msgspec.UnsetType = msgspec.UNSET
    if row.signing == "ed25519":
        public = webhook_signatures.public_key(encryptor.decrypt(row.secret).decode())
    return WebhookView(
        id=ids.encode(ids.Kind.WEBHOOK, row.id),
        url=row.url if Scope.ADMIN in caller.scopes else hide_query(row.url),
        events=row.events,
        models=row.models,
        description=row.description,
        headers=dict.fromkeys(names, HIDDEN) if names else None,
        signing=row.signing,
        format=row.format,
        rate_limit=row.rate_limit,
        ordered=row.ordered,
        status="enabled" if row.disabled_at is None else "disabled",
        disabled_at=format_optional_time(row.disabled_at),
        disabled_reason=row.disabled_reason,
        created_at=format_time(row.created_at),
        public_key=public,
    )


async def find_warnings(
    services: WebhookServices, caller: Key, models: Sequence[str] | msgspec.UnsetType | None
) -> list[FieldError]:
    """Return a warning for each model that the caller's key does not see. A pipeline is one, too."""
    if not models:
        return []
    pipelines = [each.name for each in await services.pipelines.list_newest(caller.tenant_id)]
    known = select_models(caller.models, dict.fromkeys([*await services.catalogue.read(), *pipelines]))
    return find_unknown_models(models, known)


def add_warnings(view: WebhookView, warnings: list[FieldError]) -> WebhookView:
    return msgspec.structs.replace(view, warnings=warnings) if warnings else view


def too_many_webhooks(limit: int) -> Problem:
    return limit_reached(
        f"the tenant has {limit} webhook subscriptions, the most that CHARONIA_MAX_WEBHOOKS_PER_TENANT allows; "
        "delete one, or change one with PATCH"
    )


def show_secret(view: WebhookView, secret: str) -> WebhookView:
    """Add the key that the receiver verifies with: the hmac secret, or the ed25519 public key."""
    if view.signing == "hmac":
        return msgspec.structs.replace(view, secret=secret)
    return msgspec.structs.replace(view, public_key=webhook_signatures.public_key(secret))
