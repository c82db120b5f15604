"""The services that the handlers of webhooks and deliveries receive."""

from dataclasses import dataclass

from litestar.di import NamedDependency
from litestar.params import SkipValidation

from common.postgres.database import Database
from common.security.encryption import Encryptor
from common.security.ssrf import AddressPolicy
from services.gateway.jobs.store import JobStore
from services.gateway.models.catalogue import Catalogue
from services.gateway.models.pipeline_store import PipelineReader
from services.gateway.webhooks.deliveries.store import DeliveryStore
from services.gateway.webhooks.health.store import HealthStore
from services.gateway.webhooks.secret_rotation import SecretRotation
from services.gateway.webhooks.store import WebhookStore


@dataclass(frozen=True)
class WebhookServices:
    database: Database
    jobs: JobStore
    webhooks: WebhookStore
    deliveries: DeliveryStore
    health: HealthStore
    rotation: SecretRotation
    encryptor: Encryptor
    policy: AddressPolicy
    catalogue: Catalogue
    pipelines: PipelineReader
    attempt_seconds: float  # the notifiers' deadline of one attempt
    max_webhooks: int  # subscriptions of a tenant


Services = NamedDependency[SkipValidation[WebhookServices]]
