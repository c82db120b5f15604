"""A tenant with a key and a subscription, and the calls and commands that change them."""

from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec
from cryptography.fernet import Fernet

from common import ids
from common.pipelines.definition import PipelineDefinition
from common.postgres.audit_log import Action
from common.postgres.database import Database
from common.security.encryption import Encryptor
from common.security.ssrf import AddressPolicy
from services.gateway.auth.authentication import ensure_tenant, hash_key
from services.gateway.auth.store import Key, KeyStore
from services.gateway.commands import keys
from services.gateway.commands.keys import KeySettings
from services.gateway.commands.limits import __main__ as limits
from services.gateway.jobs.store import JobStore
from services.gateway.models.catalogue import Catalogue
from services.gateway.models.pipeline_store import PipelineReader
from services.gateway.models.store import ModelStore
from services.gateway.pipelines.store import NewPipeline, PipelineWriter
from services.gateway.webhooks import action_routes, routes, secret_routes
from services.gateway.webhooks.deliveries.store import DeliveryStore
from services.gateway.webhooks.dependencies import WebhookServices
from services.gateway.webhooks.health.store import HealthStore
from services.gateway.webhooks.schemas import ChangeWebhook, CreateWebhook, Rotate
from services.gateway.webhooks.secret_rotation import SecretRotation
from services.gateway.webhooks.store import WebhookStore
from tests.integration.deliveries import add_due
from tests.integration.notifier.steps import GONE, Steps

TENANT, MODEL, PIPELINE = "acme", "ocr", "scan"
READ = {"model": MODEL, "inputs": {"image": "$inputs.image"}}
PIPELINE_OF = {"inputs": {"image": {"datatype": "BYTES", "shape": [1]}}, "outputs": {"text": "$read.text"}}
URL = "https://93.184.215.14/hook"
QUERY, HEADER, NEW_HEADER, BOOTSTRAP = "token=hidden-query", "hidden-header", "hidden-new-header", "hidden-bootstrap"


class Entry(NamedTuple):
    actor: str
    action: Action
    target: str
    changes: dict[str, object]


class World:
    """A tenant with a key and a subscription. `caller` makes the calls."""

    def __init__(self, database: Database, database_url: str) -> None:
        encryption_key = Fernet.generate_key().decode()
        self.database = database
        self.settings = KeySettings(database_url, (encryption_key,))
        self.encryptor = Encryptor([encryption_key])
        self.secrets = [QUERY, HEADER, NEW_HEADER, BOOTSTRAP]
        self.services = WebhookServices(
            database=database,
            jobs=JobStore(database),
            catalogue=Catalogue(ModelStore(database)),
            pipelines=PipelineReader(database),
            webhooks=WebhookStore(database),
            deliveries=DeliveryStore(database),
            health=HealthStore(database),
            rotation=SecretRotation(database, self.encryptor),
            encryptor=self.encryptor,
            policy=AddressPolicy.parse((), allow_http=False),
            attempt_seconds=1.0,
            max_webhooks=10,
        )

    async def prepare(self) -> None:
        await self.keys("create", TENANT)
        record = await self.database.fetch_one("SELECT id, tenant_id FROM api_keys")
        assert record is not None
        self.caller = Key(record["id"], record["tenant_id"])
        self.tenant = ids.encode(ids.Kind.TENANT, self.caller.tenant_id)
        self.webhook = (await self.create_webhook()).id
        await self.database.fetch("TRUNCATE audit_log")

    async def keys(self, *arguments: str) -> None:
        parsed = keys.parse(arguments)
        shown = await parsed.run(self.settings, parsed)
        if arguments[0] == "create":
            self.secrets.append(shown)

    async def limits(self, *arguments: str) -> None:
        parsed = limits.parse(arguments)
        await parsed.run(self.settings, parsed)

    async def add_bootstrap_key(self) -> None:
        store = KeyStore(self.database)
        tenant = await ensure_tenant(store, self.encryptor, "default", actor="gateway")
        await store.add_key(ids.new(), tenant, "bootstrap", hash_key(BOOTSTRAP), actor="gateway")

    async def call(self, handler: Any, **arguments: Any) -> Any:
        """Call the handler of a route as the tenant's key."""
        answer = await handler.fn(request=self.request, services=self.services, **arguments)
        shown = getattr(answer, "content", answer)
        if isinstance(secret := getattr(shown, "secret", None), str):
            self.secrets.append(secret)
        return shown

    @property
    def request(self) -> Any:
        return SimpleNamespace(user=self.caller, scope={"user": self.caller})

    async def create_webhook(self) -> Any:
        data = CreateWebhook(url=f"{URL}?{QUERY}", headers={"x-token": HEADER}, rate_limit=5)
        return await self.call(routes.create_webhook, data=data)

    async def change_webhook(self, **changes: Any) -> None:
        await self.call(routes.change_webhook, webhook_id=self.webhook, data=ChangeWebhook(**changes))

    async def delete_webhook(self) -> None:
        await self.call(routes.delete_webhook, webhook_id=self.webhook)

    async def rotate_webhook(self, grace: float = 60) -> None:
        await self.call(secret_routes.rotate_webhook, webhook_id=self.webhook, data=Rotate(grace))

    async def rotate_secret(self) -> None:
        await self.call(secret_routes.rotate_webhook_secret, data=Rotate(0))

    async def disable_webhook(self) -> None:
        await self.call(action_routes.disable_webhook, webhook_id=self.webhook)

    async def enable_webhook(self) -> None:
        await self.call(action_routes.enable_webhook, webhook_id=self.webhook)

    async def store_pipeline(self, timeout: float = 60.0) -> None:
        definition = msgspec.convert(PIPELINE_OF | {"steps": {"read": READ | {"timeout": timeout}}}, PipelineDefinition)
        new = NewPipeline(PIPELINE, definition, [], {"read": []})
        await PipelineWriter(self.database).add(self.caller, new)

    async def delete_pipeline(self) -> None:
        await PipelineWriter(self.database).delete(self.caller, PIPELINE)

    async def answer_gone(self) -> None:
        """Let the receiver of the subscription answer 410."""
        steps, webhook = Steps(self.database), ids.parse(ids.Kind.WEBHOOK, self.webhook)
        assert webhook is not None
        await add_due(self.database, self.caller.tenant_id, webhook, 1)
        await steps.record(await steps.claim(), GONE)

    async def read_entries(self) -> list[Entry]:
        """Return the audit log, oldest entry first."""
        found = await self.database.fetch("SELECT actor, action, target, changes FROM audit_log ORDER BY at, id")
        return [
            Entry(each["actor"], each["action"], each["target"], msgspec.json.decode(each["changes"])) for each in found
        ]
