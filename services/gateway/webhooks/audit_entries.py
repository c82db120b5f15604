"""Describes changes to subscriptions for the audit log. Pure. Shows no secret, and of headers only the names."""

from collections.abc import Mapping
from uuid import UUID

import msgspec

from common import ids
from common.postgres.audit_log import Action, AuditEntry
from common.security.encryption import Encryptor
from common.views.hidden_query import hide_query
from services.gateway.auth.store import Key
from services.gateway.webhooks.schemas import CreateWebhook
from services.gateway.webhooks.store import WebhookRow

FIELDS = ("events", "models", "description", "rate_limit", "ordered")


def make_entry(key: Key, action: Action, webhook_id: UUID, changes: Mapping[str, object] | None = None) -> AuditEntry:
    target = ids.encode(ids.Kind.WEBHOOK, webhook_id)
    return AuditEntry(key.tenant_id, key.actor, action, target, changes or {})


def show_fields(data: CreateWebhook) -> dict[str, object]:
    """Return what a new subscription has."""
    shown: dict[str, object] = {"url": hide_query(data.url), "signing": data.signing, "format": data.format}
    if data.headers:
        shown["headers"] = sorted(data.headers)
    return shown | {name: value for name in FIELDS if (value := getattr(data, name)) is not None}


def list_changes(before: WebhookRow, after: WebhookRow, encryptor: Encryptor) -> dict[str, object]:
    """Return the new value of each field that differs."""
    changes = {name: getattr(after, name) for name in FIELDS if getattr(after, name) != getattr(before, name)}
    if after.url != before.url:
        changes["url"] = hide_query(after.url)
    headers = read_headers(after, encryptor)
    if headers != read_headers(before, encryptor):
        changes["headers"] = sorted(headers)
    return changes


def read_headers(row: WebhookRow, encryptor: Encryptor) -> dict[str, str]:
    return msgspec.json.decode(encryptor.decrypt(row.headers), type=dict[str, str]) if row.headers else {}
