"""HTTP routes that show and rotate signing secrets."""

from http import HTTPStatus
from typing import Any

import msgspec
from litestar import Request, get, post

from common import ids
from common.telemetry.logs import Log
from common.views.job import format_optional_time
from services.gateway.auth.scopes import Scope, needs
from services.gateway.auth.store import Key
from services.gateway.http.parameters import parse_id
from services.gateway.http.problems import ANY_CALL, WITH_BODY, document
from services.gateway.http.telemetry import identify_caller
from services.gateway.webhooks.dependencies import Services
from services.gateway.webhooks.routes import show_secret, view_webhook
from services.gateway.webhooks.schemas import Rotate, SecretView, WebhookView

log = Log("webhook")

OLD_SECRETS = "`limit_reached`: too many old secrets still sign"

Caller = Request[Key, Any, Any]


@post(
    "/webhooks/{webhook_id:str}/rotate",
    status_code=HTTPStatus.OK,
    summary="Rotate the secret of a subscription",
    operation_id="rotate_webhook",
    **needs(Scope.ADMIN),
    responses=document(*WITH_BODY, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, conflict=OLD_SECRETS),
)
async def rotate_webhook(
    request: Caller, webhook_id: str, services: Services, data: Rotate | None = None
) -> WebhookView:
    """Replace the secret. Only this response has the new one; for `ed25519`, it has the new `public_key`.

    The old secret also signs during a grace period, so that receivers have time to change.
    """
    grace = (data or Rotate()).grace_period
    parsed = parse_id(ids.Kind.WEBHOOK, webhook_id)
    row, rotated = await services.rotation.rotate_webhook(request.user, parsed, grace)
    log.info("webhook.rotated", webhook_id=webhook_id, **identify_caller(request))
    view = show_secret(view_webhook(row, services.encryptor, request.user), rotated.secret)
    return msgspec.structs.replace(view, old_secret_until=format_optional_time(rotated.old_until))


@post(
    "/webhook-secret/rotate",
    status_code=HTTPStatus.OK,
    summary="Rotate the secret of single-job callbacks",
    operation_id="rotate_webhook_secret",
    **needs(Scope.ADMIN),
    responses=document(*WITH_BODY, HTTPStatus.CONFLICT, conflict=OLD_SECRETS),
)
async def rotate_webhook_secret(request: Caller, services: Services, data: Rotate | None = None) -> SecretView:
    """Replace the tenant's secret. The old secret also signs during a grace period."""
    rotated = await services.rotation.rotate_tenant(request.user, (data or Rotate()).grace_period)
    log.info("webhook_secret.rotated", **identify_caller(request))
    return SecretView(rotated.secret, format_optional_time(rotated.old_until))


@get(
    "/webhook-secret",
    summary="Get the secret of single-job callbacks",
    operation_id="get_webhook_secret",
    **needs(Scope.ADMIN),
    responses=document(*ANY_CALL),
)
async def get_webhook_secret(request: Caller, services: Services) -> SecretView:
    """Return the tenant's secret. It signs the webhooks of jobs that name their own URL."""
    sealed = await services.webhooks.find_tenant_secret(request.user.tenant_id)
    return SecretView(services.encryptor.decrypt(sealed).decode())
