"""Webhook subscriptions, and the secret that signs callbacks given per job."""

from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, Router, delete, get, post
from litestar.params import Dependency, Parameter

from common import ids, signing
from common.addresses import Policy, check_host, check_url
from common.errors import AddressRefused
from common.job_view import show_time
from common.sealing import Sealer
from services.gateway.errors import FINDING, READING, SENDING, FieldError, document, invalid, not_found
from services.gateway.schemas import CreateWebhook, SecretView, WebhookPage, WebhookView
from services.gateway.store import Key, NewWebhook, Store, WebhookRow
from services.gateway.subscriptions import check_headers, check_patterns

HIDDEN = "***"  # a header's value may be a credential

Caller = Request[Key, Any, Any]
OurPolicy = Annotated[Policy, Dependency(skip_validation=True)]  # it has types that msgspec does not convert


@post("/", summary="Subscribe", operation_id="create_webhook", responses=document(*SENDING))
async def create_webhook(
    request: Caller, data: CreateWebhook, store: Store, sealer: Sealer, policy: OurPolicy
) -> Response[WebhookView]:
    """The secret (hmac) is in this answer and in no later one."""
    errors = check_headers(data.headers or {}) + check_patterns(data.events)
    try:
        check_url(data.url, policy)
        await check_host(data.url, policy)
    except AddressRefused as error:
        errors.append(FieldError("/url", str(error)))
    if errors:
        raise invalid(*errors)
    secret = signing.new_secret(data.signing)
    row = await store.add_webhook(
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
        )
    )
    view = view_webhook(row, sealer)
    if data.signing == "hmac":
        view = msgspec.structs.replace(view, secret=secret)
    return Response(view, headers={"Location": f"/v1/webhooks/{view.id}"})


@get(
    "/",
    summary="Your subscriptions",
    operation_id="list_webhooks",
    responses=document(*READING, HTTPStatus.UNPROCESSABLE_ENTITY),
)
async def list_webhooks(
    request: Caller,
    store: Store,
    sealer: Sealer,
    limit: Annotated[int, Parameter(ge=1, le=1000)] = 100,
    cursor: str | None = None,
) -> WebhookPage:
    """Oldest first; pass `next_cursor` as `cursor` for the next page."""
    after = ids.parse(ids.Kind.WEBHOOK, cursor) if cursor else None
    if cursor and after is None:
        raise invalid(FieldError("cursor", "is none of ours"))
    rows = await store.list_webhooks(request.user.tenant_id, after, limit + 1)
    items = [view_webhook(row, sealer) for row in rows[:limit]]
    return WebhookPage(items, items[-1].id if len(rows) > limit else None)


@get("/{webhook_id:str}", summary="A subscription", operation_id="get_webhook", responses=document(*FINDING))
async def get_webhook(request: Caller, webhook_id: str, store: Store, sealer: Sealer) -> WebhookView:
    parsed = ids.parse(ids.Kind.WEBHOOK, webhook_id)
    row = await store.find_webhook(parsed, request.user.tenant_id) if parsed else None
    if row is None:
        raise not_found("webhook")
    return view_webhook(row, sealer)


@delete("/{webhook_id:str}", summary="Unsubscribe", operation_id="delete_webhook", responses=document(*FINDING))
async def delete_webhook(request: Caller, webhook_id: str, store: Store) -> None:
    """What is still pending for it is dropped."""
    parsed = ids.parse(ids.Kind.WEBHOOK, webhook_id)
    if parsed is None or not await store.delete_webhook(parsed, request.user.tenant_id):
        raise not_found("webhook")


@get(
    "/webhook-secret",
    summary="The secret that signs callbacks given per job",
    operation_id="get_webhook_secret",
    responses=document(*READING),
)
async def get_webhook_secret(request: Caller, store: Store, sealer: Sealer) -> SecretView:
    return SecretView(sealer.open(await store.find_tenant_secret(request.user.tenant_id)).decode())


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
        created_at=show_time(row.created_at),
        public_key=public,
    )


subscriptions = Router("/webhooks", route_handlers=[create_webhook, list_webhooks, get_webhook, delete_webhook])
router = Router("/", route_handlers=[subscriptions, get_webhook_secret], tags=["Webhooks"])
