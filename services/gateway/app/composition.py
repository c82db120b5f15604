"""Creates the services of each capability around open connections, each once."""

from dataclasses import dataclass

from common.locations.allowed import AllowedLocations
from common.locations.buckets import Buckets
from common.object_store.store import ObjectStore
from common.postgres.database import Database
from common.rabbitmq.change_publisher import ChangePublisher
from common.rabbitmq.publisher import Publisher
from common.rabbitmq.wake_ups import WakeUpPublisher
from common.runs.pipelines import Pipelines
from common.runs.progress import RunCarrier
from common.security.encryption import Encryptor
from common.security.signed_urls import UrlSigner
from common.security.ssrf import AddressPolicy
from common.views.job import JobUrls
from services.gateway.admin.audit.routes import AuditServices
from services.gateway.admin.audit.store import AuditStore
from services.gateway.admin.keys.revocation import RevocationAnnouncer
from services.gateway.admin.keys.routes import KeyServices
from services.gateway.auth.authentication import Authenticator, KeyCache
from services.gateway.auth.rate_limits import RateLimiter
from services.gateway.auth.store import KeyStore, RateLimitStore
from services.gateway.batches.announcer import JobAnnouncer
from services.gateway.batches.canceler import BatchCanceler
from services.gateway.batches.routes import BatchServices
from services.gateway.batches.store import BatchStore
from services.gateway.batches.submit import BatchSubmitter
from services.gateway.batches.waiting import BatchWaiting
from services.gateway.events.dependencies import EventServices
from services.gateway.events.feed.feed import EventFeed
from services.gateway.events.feed.routes import FeedServices
from services.gateway.events.history import JobHistory
from services.gateway.events.store import EventStore
from services.gateway.events.waiters import Waiters
from services.gateway.files.dependencies import FileServices
from services.gateway.files.presigned import PresignedUploads
from services.gateway.files.quota import Quota
from services.gateway.files.store import FileStore
from services.gateway.files.uploads import Uploader, UploadLimits
from services.gateway.http.draining import DrainState
from services.gateway.http.health import Readiness
from services.gateway.http.worker_processes import Workers
from services.gateway.jobs.actions.cancel import Canceler
from services.gateway.jobs.actions.erasure import Eraser
from services.gateway.jobs.actions.retry import Retrier
from services.gateway.jobs.dependencies import JobServices
from services.gateway.jobs.idempotency.keys import IdempotencyKeys
from services.gateway.jobs.idempotency.store import IdempotencyStore
from services.gateway.jobs.inputs.files import InputFiles
from services.gateway.jobs.inputs.large_input_writer import LargeInputWriter
from services.gateway.jobs.inputs.locations import InputLocations
from services.gateway.jobs.inputs.store import InputStore
from services.gateway.jobs.inputs.stored_limit import StoredLimit
from services.gateway.jobs.lookups import Lookups
from services.gateway.jobs.queue_limits.limits import QueueLimits
from services.gateway.jobs.queue_limits.store import QueueLimitStore
from services.gateway.jobs.reuse.sharing import Sharing
from services.gateway.jobs.runs.retry import RunRetrier
from services.gateway.jobs.runs.submit import RunSubmitter
from services.gateway.jobs.runs.views import RunViewer
from services.gateway.jobs.store import JobStore
from services.gateway.jobs.submit import Submitter
from services.gateway.jobs.wait_reasons import WaitExplainer
from services.gateway.models.catalogue import Catalogue
from services.gateway.models.pipeline_store import PipelineReader
from services.gateway.models.queue_depths import QueueDepths
from services.gateway.models.routes import ModelServices
from services.gateway.models.store import ModelStore
from services.gateway.models.workloads import WorkloadReader
from services.gateway.open_inference.dependencies import InferenceServices
from services.gateway.open_inference.inference import Inference
from services.gateway.openai.composition import OpenAIApi, compose_api
from services.gateway.pipelines.routes import PipelineServices
from services.gateway.pipelines.store import PipelineWriter
from services.gateway.reports.stats.reader import StatsReader
from services.gateway.reports.stats.routes import StatsServices
from services.gateway.reports.stats.store import StatsStore
from services.gateway.reports.traces.routes import TraceServices
from services.gateway.reports.traces.store import TraceStore
from services.gateway.reports.usage.routes import UsageServices
from services.gateway.reports.usage.store import UsageStore
from services.gateway.settings import GatewaySettings
from services.gateway.webhooks.deliveries.store import DeliveryStore
from services.gateway.webhooks.dependencies import WebhookServices
from services.gateway.webhooks.health.store import HealthStore
from services.gateway.webhooks.secret_rotation import SecretRotation
from services.gateway.webhooks.store import WebhookStore


@dataclass(frozen=True)
class Connections:
    """What the gateway holds open, and the tasks and processes that work for all requests."""

    database: Database
    publisher: Publisher
    wake_ups: WakeUpPublisher
    waiters: Waiters
    feed: EventFeed
    keys: KeyCache
    workers: Workers
    template_workers: Workers
    objects: ObjectStore
    buckets: Buckets


@dataclass(frozen=True)
class Services:
    """The services of each capability."""

    authenticator: Authenticator
    readiness: Readiness
    models: ModelServices
    events: EventServices
    feed: FeedServices
    jobs: JobServices
    batches: BatchServices
    files: FileServices
    webhooks: WebhookServices
    traces: TraceServices
    usage: UsageServices
    stats: StatsServices
    keys: KeyServices
    audit: AuditServices
    pipelines: PipelineServices
    inference: InferenceServices
    openai: OpenAIApi


def compose(settings: GatewaySettings, connections: Connections, drain: DrainState) -> Services:
    """Create every service once."""
    database = connections.database
    checks = {"database": database.check, "broker": connections.publisher.connection.check}
    authenticator = Authenticator(connections.keys, RateLimiter(RateLimitStore(database), settings.rate_limit))
    readiness = Readiness(checks, drain)
    model_store = ModelStore(database)
    catalogue, workloads = Catalogue(model_store), WorkloadReader(model_store)
    policy = AddressPolicy.parse(settings.webhook_networks, settings.webhook_http)
    event_services = EventServices(
        authenticator, JobHistory(EventStore(database), connections.waiters, make_urls(settings), settings.heartbeat)
    )
    pipelines = PipelineReader(database)
    lookups = compose_lookups(settings, connections, pipelines)
    job_services = compose_jobs(
        settings, connections, event_services, catalogue, WaitExplainer(workloads), policy, lookups
    )
    inference = Inference(
        job_services.submitter,
        job_services.canceler,
        job_services.store,
        connections.waiters,
        settings.infer_wait,
    )
    files = compose_files(settings, connections, job_services)
    return Services(
        authenticator=authenticator,
        readiness=readiness,
        models=ModelServices(
            catalogue, pipelines, QueueDepths(model_store), workloads, model_store, settings.max_tensor_bytes
        ),
        events=event_services,
        feed=FeedServices(authenticator, connections.feed),
        jobs=job_services,
        batches=compose_batches(settings, connections, job_services),
        files=files,
        webhooks=compose_webhooks(settings, database, job_services.store, policy, catalogue, pipelines),
        traces=TraceServices(TraceStore(database), DeliveryStore(database)),
        usage=UsageServices(UsageStore(database)),
        stats=StatsServices(StatsReader(StatsStore(database))),
        keys=KeyServices(
            KeyStore(database),
            settings.rate_limit,
            RevocationAnnouncer(connections.publisher, connections.keys, connections.waiters),
        ),
        audit=AuditServices(AuditStore(database)),
        pipelines=PipelineServices(pipelines, PipelineWriter(database), catalogue, settings.max_tensor_bytes),
        inference=InferenceServices(
            authenticator,
            readiness,
            catalogue,
            pipelines,
            inference,
            connections.workers,
            connections.objects,
            max_body=settings.max_body_bytes,
        ),
        openai=compose_api(
            database,
            connections.objects,
            connections.wake_ups,
            connections.template_workers,
            job_services,
            files,
            inference,
            catalogue,
        ),
    )


def make_urls(settings: GatewaySettings) -> JobUrls:
    return JobUrls(settings.public_url, settings.trace_url, UrlSigner(settings.url_keys))


def compose_jobs(
    settings: GatewaySettings,
    connections: Connections,
    events: EventServices,
    catalogue: Catalogue,
    waits: WaitExplainer,
    policy: AddressPolicy,
    lookups: Lookups,
) -> JobServices:
    database, wake_ups = connections.database, connections.wake_ups
    store = JobStore(database)
    changes = ChangePublisher(connections.publisher)
    urls = make_urls(settings)
    limits = QueueLimits(
        QueueLimitStore(database), settings.max_queued, settings.max_queued_per_model, settings.max_queued_bytes
    )
    keys = IdempotencyKeys(IdempotencyStore(database))
    carrier, pipelines = RunCarrier(urls, files=None), Pipelines()
    return JobServices(
        authenticator=events.authenticator,
        store=store,
        submitter=Submitter(
            database,
            catalogue,
            wake_ups,
            policy,
            limits,
            keys,
            connections.workers,
            lookups,
            compose_large_inputs(settings, connections),
            RunSubmitter(database, carrier, pipelines, wake_ups),
            Sharing(database, catalogue, wake_ups, urls),
        ),
        canceler=Canceler(database, wake_ups, changes, urls, carrier),
        retrier=Retrier(database, catalogue, wake_ups, changes, RunRetrier(database, carrier, pipelines)),
        eraser=Eraser(database),
        waiters=connections.waiters,
        events=events,
        waits=waits,
        runs=RunViewer(database, pipelines),
        signer=UrlSigner(settings.url_keys),
        urls=urls,
    )


def compose_lookups(settings: GatewaySettings, connections: Connections, pipelines: PipelineReader) -> Lookups:
    database = connections.database
    locations = InputLocations(AllowedLocations(database, settings.store_url), connections.buckets)
    policy = AddressPolicy.parse(settings.input_networks, settings.input_http, "CHARONIA_INPUT_NETWORKS")
    files = InputFiles(InputStore(database), connections.objects, locations, settings.max_tensor_bytes, policy)
    return Lookups(files, pipelines)


def compose_large_inputs(settings: GatewaySettings, connections: Connections) -> LargeInputWriter:
    store = InputStore(connections.database)
    limit = StoredLimit(store, settings.max_stored_bytes)
    return LargeInputWriter(connections.database, store, connections.objects, limit, settings.inline_input_bytes)


def compose_batches(settings: GatewaySettings, connections: Connections, services: JobServices) -> BatchServices:
    store = BatchStore(connections.database)
    return BatchServices(
        authenticator=services.authenticator,
        submitter=BatchSubmitter(store, services.submitter, JobAnnouncer(connections.wake_ups, connections.database)),
        store=store,
        waiting=BatchWaiting(store, connections.waiters),
        canceler=BatchCanceler(store, services.canceler),
        workers=connections.workers,
        urls=services.urls,
        max_item=settings.max_body_bytes,
    )


def compose_files(settings: GatewaySettings, connections: Connections, services: JobServices) -> FileServices:
    store = FileStore(connections.database, Quota(settings.max_files, settings.max_stored_bytes))
    limits = UploadLimits(settings.max_file_bytes, settings.default_file_retention, settings.max_file_retention)
    return FileServices(
        authenticator=services.authenticator,
        store=store,
        objects=connections.objects,
        uploader=Uploader(store, connections.objects, limits),
        presigned=PresignedUploads(store, connections.objects, settings.max_file_bytes),
        signer=services.signer,
        redirects=settings.store_redirects,
    )


def compose_webhooks(
    settings: GatewaySettings,
    database: Database,
    job_store: JobStore,
    policy: AddressPolicy,
    catalogue: Catalogue,
    pipelines: PipelineReader,
) -> WebhookServices:
    encryptor = Encryptor(settings.encryption_keys)
    return WebhookServices(
        database=database,
        jobs=job_store,
        webhooks=WebhookStore(database),
        deliveries=DeliveryStore(database),
        health=HealthStore(database),
        rotation=SecretRotation(database, encryptor),
        encryptor=encryptor,
        policy=policy,
        catalogue=catalogue,
        pipelines=pipelines,
        attempt_seconds=settings.delivery_timeout,
        max_webhooks=settings.max_webhooks_per_tenant,
    )
