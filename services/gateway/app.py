"""The composition root: from settings and open connections to the Litestar application."""

from dataclasses import dataclass

from litestar import Litestar, Router
from litestar.routes import WebSocketRoute
from litestar.types import ASGIApp

from common.postgres.database import Database
from common.rabbitmq.change_publisher import ChangePublisher
from common.rabbitmq.publisher import Publisher
from common.rabbitmq.wake_ups import WakeUpPublisher
from common.security.encryption import Encryptor
from common.security.signed_urls import UrlSigner
from common.security.ssrf import AddressPolicy
from common.views.job import JobUrls
from services.gateway.audit import routes as audit
from services.gateway.audit.routes import AuditServices
from services.gateway.audit.store import AuditStore
from services.gateway.auth.authentication import AuthenticationMiddleware, Authenticator, KeyCache
from services.gateway.auth.rate_limits import RateLimiter, RateLimitHeadersMiddleware
from services.gateway.auth.store import KeyStore, RateLimitStore
from services.gateway.batches import routes as batches
from services.gateway.batches.routes import BatchServices
from services.gateway.batches.store import BatchStore
from services.gateway.batches.submit import BatchSubmitter
from services.gateway.batches.waiting import BatchWaiting
from services.gateway.events import router as events
from services.gateway.events.dependencies import EventServices
from services.gateway.events.history import JobHistory
from services.gateway.events.store import EventStore
from services.gateway.events.waiters import Waiters
from services.gateway.feed import routes as feed
from services.gateway.feed.feed import EventFeed
from services.gateway.feed.routes import FeedServices
from services.gateway.http import health, welcome
from services.gateway.http.bodies import ApiRequest
from services.gateway.http.body_limits import BodyBudget, BodyDeadlines, BodyLimitsMiddleware
from services.gateway.http.draining import DrainMiddleware, DrainState
from services.gateway.http.error_responses import HANDLERS
from services.gateway.http.health import Readiness
from services.gateway.http.methods import HeadMiddleware, answer_options
from services.gateway.http.parameters import check_parameters
from services.gateway.http.problems import PROTOCOL
from services.gateway.http.response_budget import ResponseBudget
from services.gateway.http.response_limits import ResponseLimitsMiddleware
from services.gateway.http.telemetry import TelemetryMiddleware
from services.gateway.http.websockets import UnknownSocketMiddleware
from services.gateway.http.worker_processes import LARGE, Workers
from services.gateway.jobs import router as jobs
from services.gateway.jobs.cancel import Canceler
from services.gateway.jobs.dependencies import JobServices
from services.gateway.jobs.erasure import Eraser
from services.gateway.jobs.idempotency import IdempotencyKeys
from services.gateway.jobs.idempotency_store import IdempotencyStore
from services.gateway.jobs.queue_limit_store import QueueLimitStore
from services.gateway.jobs.queue_limits import QueueLimits
from services.gateway.jobs.retry import Retrier
from services.gateway.jobs.store import JobStore
from services.gateway.jobs.submit import Submitter
from services.gateway.jobs.waiting import WaitExplainer
from services.gateway.keys import routes as keys
from services.gateway.keys.revocation import RevocationAnnouncer
from services.gateway.keys.routes import KeyServices
from services.gateway.models import routes as models
from services.gateway.models.catalogue import Catalogue
from services.gateway.models.queue_depths import QueueDepths
from services.gateway.models.routes import ModelServices
from services.gateway.models.store import ModelStore
from services.gateway.models.workloads import WorkloadReader
from services.gateway.open_inference import router as open_inference
from services.gateway.open_inference.dependencies import InferenceServices
from services.gateway.open_inference.inference import Inference
from services.gateway.openapi import document
from services.gateway.settings import GatewaySettings
from services.gateway.stats import routes as stats
from services.gateway.stats.reader import StatsReader
from services.gateway.stats.routes import StatsServices
from services.gateway.stats.store import StatsStore
from services.gateway.traces import routes as traces
from services.gateway.traces.routes import TraceServices
from services.gateway.traces.store import TraceStore
from services.gateway.usage import routes as usage
from services.gateway.usage.routes import UsageServices
from services.gateway.usage.store import UsageStore
from services.gateway.webhooks import router as webhooks
from services.gateway.webhooks.delivery_store import DeliveryStore
from services.gateway.webhooks.dependencies import WebhookServices
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
    webhooks: WebhookServices
    traces: TraceServices
    usage: UsageServices
    stats: StatsServices
    keys: KeyServices
    audit: AuditServices
    inference: InferenceServices


@dataclass(frozen=True)
class Gateway:
    """The application, the same with its middleware, and what a shutdown changes."""

    app: Litestar
    asgi: ASGIApp
    drain: DrainState
    deadlines: BodyDeadlines


def build(settings: GatewaySettings, connections: Connections) -> Gateway:
    """Compose the gateway around its open connections."""
    drain, deadlines = DrainState(), BodyDeadlines()
    app = make_app(settings, compose(settings, connections, drain))
    budget = BodyBudget(settings.max_bodies)
    sockets = [route.path_format for route in app.routes if isinstance(route, WebSocketRoute)]
    # Around Litestar, to see requests that match no route; the last is the outermost.
    asgi: ASGIApp = RateLimitHeadersMiddleware(app)
    asgi = UnknownSocketMiddleware(asgi, sockets)
    asgi = HeadMiddleware(asgi)
    asgi = BodyLimitsMiddleware(asgi, budget, deadlines)
    asgi = ResponseLimitsMiddleware(asgi, ResponseBudget(settings.max_responses))
    asgi = TelemetryMiddleware(asgi)
    asgi = DrainMiddleware(asgi, drain)
    return Gateway(app, asgi, drain, deadlines)


def make_app(settings: GatewaySettings, services: Services) -> Litestar:
    authenticator = services.authenticator
    api = Router(
        "/v1",
        route_handlers=[
            jobs.make_router(services.jobs, settings.max_body),
            events.make_router(services.events),
            feed.make_router(services.feed),
            models.make_router(services.models),
            batches.make_router(services.batches, settings.max_batch),
            webhooks.make_router(services.webhooks),
            traces.make_router(services.traces),
            usage.make_router(services.usage),
            stats.make_router(services.stats),
            audit.make_router(services.audit),
            keys.make_router(services.keys),
        ],
        request_max_body_size=min(settings.max_body, LARGE),  # of bodies that Litestar decodes in place
        middleware=[lambda app: AuthenticationMiddleware(app, authenticator, check_parameters)],
    )
    protocol = Router(
        PROTOCOL,
        route_handlers=[open_inference.make_router(services.inference)],
        middleware=[lambda app: AuthenticationMiddleware(app, authenticator)],
    )
    return Litestar(
        route_handlers=[api, protocol, welcome.router, health.make_router(services.readiness), document.router],
        request_class=ApiRequest,
        before_request=answer_options,
        exception_handlers=HANDLERS,
        request_max_body_size=settings.max_body,
        logging_config=None,  # logging is configured already
        openapi_config=document.make_config(),
    )


def compose(settings: GatewaySettings, connections: Connections, drain: DrainState) -> Services:
    """Create every service once."""
    database = connections.database
    checks = {"database": database.check, "broker": connections.publisher.connection.check}
    authenticator = Authenticator(connections.keys, RateLimiter(RateLimitStore(database), settings.rate_limit))
    readiness = Readiness(checks, drain)
    model_store = ModelStore(database)
    catalogue, workloads = Catalogue(model_store), WorkloadReader(model_store)
    policy = AddressPolicy.parse(settings.allowed_networks, settings.allow_http)
    event_services = EventServices(
        authenticator, JobHistory(EventStore(database), connections.waiters, settings.heartbeat)
    )
    job_services = compose_jobs(settings, connections, event_services, catalogue, WaitExplainer(workloads), policy)
    inference = Inference(
        *(job_services.submitter, job_services.canceler, job_services.store),
        *(connections.waiters, settings.infer_wait),
    )
    return Services(
        authenticator=authenticator,
        readiness=readiness,
        models=ModelServices(catalogue, QueueDepths(model_store), workloads, model_store),
        events=event_services,
        feed=FeedServices(authenticator, connections.feed),
        jobs=job_services,
        batches=compose_batches(settings, connections, job_services),
        webhooks=compose_webhooks(settings, database, job_services.store, policy, catalogue),
        traces=TraceServices(TraceStore(database), DeliveryStore(database)),
        usage=UsageServices(UsageStore(database)),
        stats=StatsServices(StatsReader(StatsStore(database))),
        keys=KeyServices(
            KeyStore(database),
            settings.rate_limit,
            RevocationAnnouncer(connections.publisher, connections.keys, connections.waiters),
        ),
        audit=AuditServices(AuditStore(database)),
        inference=InferenceServices(
            *(authenticator, readiness, catalogue, inference, connections.workers), max_body=settings.max_body
        ),
    )


def compose_jobs(
    settings: GatewaySettings,
    connections: Connections,
    events: EventServices,
    catalogue: Catalogue,
    waits: WaitExplainer,
    policy: AddressPolicy,
) -> JobServices:
    database, wake_ups = connections.database, connections.wake_ups
    store = JobStore(database)
    changes = ChangePublisher(connections.publisher)
    urls = JobUrls(settings.public_url.rstrip("/"), settings.trace_url)
    limits = QueueLimits(
        QueueLimitStore(database), settings.max_queued, settings.max_queued_per_model, settings.max_queued_bytes
    )
    keys = IdempotencyKeys(IdempotencyStore(database))
    return JobServices(
        authenticator=events.authenticator,
        store=store,
        submitter=Submitter(store, catalogue, wake_ups, policy, limits, keys, connections.workers),
        canceler=Canceler(database, wake_ups, changes, urls),
        retrier=Retrier(database, catalogue, wake_ups, changes),
        eraser=Eraser(database),
        waiters=connections.waiters,
        events=events,
        waits=waits,
        signer=UrlSigner(settings.url_keys),
        urls=urls,
    )


def compose_batches(settings: GatewaySettings, connections: Connections, services: JobServices) -> BatchServices:
    store = BatchStore(connections.database)
    return BatchServices(
        authenticator=services.authenticator,
        submitter=BatchSubmitter(store, services.submitter, connections.wake_ups),
        store=store,
        waiting=BatchWaiting(store, connections.waiters),
        workers=connections.workers,
        urls=services.urls,
        max_item=settings.max_body,
    )


def compose_webhooks(
    settings: GatewaySettings, database: Database, job_store: JobStore, policy: AddressPolicy, catalogue: Catalogue
) -> WebhookServices:
    encryptor = Encryptor(settings.encryption_keys)
    return WebhookServices(
        database=database,
        jobs=job_store,
        webhooks=WebhookStore(database),
        deliveries=DeliveryStore(database),
        rotation=SecretRotation(database, encryptor),
        encryptor=encryptor,
        policy=policy,
        catalogue=catalogue,
        attempt_seconds=settings.delivery_timeout,
        max_webhooks=settings.max_webhooks_per_tenant,
    )
