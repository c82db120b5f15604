"""Every kind of change that the audit log records, and the entries of each."""

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, TypeAlias

from common.postgres.audit_log import Action
from tests.integration.gateway.admin.audit.world import MODEL, NEW_HEADER, PIPELINE, QUERY, TENANT, URL, World

DISABLE = "UPDATE webhooks SET disabled_at = now(), disabled_reason = 'gone'"
Entries: TypeAlias = Mapping[Action, Mapping[str, object]]


class Change(NamedTuple):
    make: Callable[[World], Awaitable[object]]
    actor: str  # `key` for the tenant's key
    target: str  # `new` for one that did not exist
    entries: Entries
    before: Callable[[World], Awaitable[object]] | None = None


def disable(world: World) -> Awaitable[object]:
    return world.database.fetch(DISABLE)


ALL_SCOPES: dict[str, object] = {"scopes": ["admin", "read", "submit"]}
USUAL_SCOPES: dict[str, object] = {"scopes": ["read", "submit"]}
PAUSED_MODEL, PAUSED_TENANT = ("model", MODEL, "--pause"), ("tenant", TENANT, "--pause")
CHANGES = {
    "create a key": Change(
        lambda world: world.keys("create", TENANT, "--name", "ci", "--scope", "read", "--model", "ocr*"),
        "keys create",
        "new",
        {"key.created": {"name": "ci", "scopes": ["read"], "models": ["ocr*"]}},
    ),
    "create a key that expires": Change(
        lambda world: world.keys("create", TENANT, "--rate-limit", "7", "--expires-at", "2999-01-01T00:00:00Z"),
        "keys create",
        "new",
        {"key.created": {"name": "", **USUAL_SCOPES, "rate_limit": 7, "expires_at": "2999-01-01T00:00:00.000Z"}},
    ),
    "create a tenant": Change(
        lambda world: world.keys("create", "umbrella"),
        "keys create",
        "new",
        {"tenant.created": {"name": "umbrella"}, "key.created": {"name": "", **USUAL_SCOPES}},
    ),
    "add the bootstrap key": Change(
        World.add_bootstrap_key,
        "gateway",
        "new",
        {"tenant.created": {"name": "default"}, "key.created": {"name": "bootstrap", **ALL_SCOPES}},
    ),
    "revoke a key": Change(
        lambda world: world.keys("revoke", world.caller.actor), "keys revoke", "key", {"key.revoked": {}}
    ),
    "limit a queue": Change(
        lambda world: world.keys("tenant", TENANT, "--max-queued", "5"),
        "keys tenant",
        "tenant",
        {"tenant.updated": {"max_queued": 5}},
    ),
    "pause a tenant": Change(
        lambda world: world.limits(*PAUSED_TENANT), "limits tenant", "tenant", {"tenant.paused": {}}
    ),
    "resume a tenant": Change(
        lambda world: world.limits("tenant", TENANT, "--resume"),
        "limits tenant",
        "tenant",
        {"tenant.resumed": {}},
        lambda world: world.limits(*PAUSED_TENANT),
    ),
    "set a retention": Change(
        lambda world: world.limits("tenant", TENANT, "--retention", "60"),
        "limits tenant",
        "tenant",
        {"tenant.updated": {"retention": 60}},
    ),
    "limit and pause a model": Change(
        lambda world: world.limits(*PAUSED_MODEL, "--max-running", "3"),
        "limits model",
        MODEL,
        {"model.updated": {"max_running": 3}, "model.paused": {}},
    ),
    "resume a model": Change(
        lambda world: world.limits("model", MODEL, "--resume"),
        "limits model",
        MODEL,
        {"model.resumed": {}},
        lambda world: world.limits(*PAUSED_MODEL),
    ),
    "store a pipeline": Change(World.store_pipeline, "key", PIPELINE, {"pipeline.created": {"version": "1"}}),
    "store another version": Change(
        lambda world: world.store_pipeline(120.0),
        "key",
        PIPELINE,
        {"pipeline.updated": {"version": "2"}},
        World.store_pipeline,
    ),
    "delete a pipeline": Change(
        World.delete_pipeline, "key", PIPELINE, {"pipeline.deleted": {"version": "1"}}, World.store_pipeline
    ),
    "create a webhook": Change(
        World.create_webhook,
        "key",
        "new",
        {
            "webhook.created": {
                "url": URL,
                "signing": "hmac",
                "format": "charonia",
                "headers": ["x-token"],
                "events": ["job.*"],
                "rate_limit": 5,
                "ordered": False,
            }
        },
    ),
    "change a webhook": Change(
        lambda world: world.change_webhook(url=f"{URL}/b?{QUERY}", events=["job.failed"], rate_limit=None),
        "key",
        "webhook",
        {"webhook.updated": {"url": f"{URL}/b", "events": ["job.failed"], "rate_limit": None}},
    ),
    "change a header": Change(
        lambda world: world.change_webhook(headers={"x-token": NEW_HEADER}),
        "key",
        "webhook",
        {"webhook.updated": {"headers": ["x-token"]}},
    ),
    "delete a webhook": Change(World.delete_webhook, "key", "webhook", {"webhook.deleted": {"url": URL}}),
    "rotate the secret of a webhook": Change(
        World.rotate_webhook, "key", "webhook", {"webhook.rotated": {"grace_period": 60}}
    ),
    "rotate the secret of callbacks": Change(
        World.rotate_secret, "key", "tenant", {"secret.rotated": {"grace_period": 0}}
    ),
    "enable a webhook": Change(World.enable_webhook, "key", "webhook", {"webhook.enabled": {}}, disable),
    "disable a webhook": Change(World.answer_gone, "notifier", "webhook", {"webhook.disabled": {"reason": "gone"}}),
    "disable a webhook by hand": Change(
        World.disable_webhook, "key", "webhook", {"webhook.disabled": {"reason": "manual"}}
    ),
}
