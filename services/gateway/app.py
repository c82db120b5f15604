"""The gateway, put together."""

import asyncio
from functools import partial
from http import HTTPStatus
from typing import Any

from litestar import HttpMethod, Litestar, Request, Response, Router
from litestar.datastructures import State
from litestar.di import Provide
from litestar.middleware import DefineMiddleware
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Components, SecurityScheme
from litestar.routes import HTTPRoute

from common import health, ids, topology
from common.addresses import Policy
from common.bell import Bell
from common.broker import Consumer, Publisher, Subscription
from common.database import Database
from common.grants import Grants
from common.job_view import Links
from common.lifecycle import keep_running
from common.logs import Log
from common.metrics import measure_lag
from common.outbox import Outbox
from common.processes import name_process
from common.sealing import Sealer
from services.gateway import docs, errors, observe, rates
from services.gateway.attention import Attention
from services.gateway.auth import Authentication, Keyring, ensure_tenant, hash_key
from services.gateway.batch_store import BatchStore
from services.gateway.batches import BatchSubmitter
from services.gateway.bodies import Patience, in_time
from services.gateway.budget import Budget
from services.gateway.catalogue import Catalogue
from services.gateway.connections import protocols
from services.gateway.control import Control
from services.gateway.delivery_store import DeliveryStore
from services.gateway.depths import Depths
from services.gateway.erasure import Eraser
from services.gateway.front import front
from services.gateway.idempotency import Repeats
from services.gateway.idempotency_store import IdempotencyStore
from services.gateway.inference import Inference
from services.gateway.limit_store import LimitStore
from services.gateway.listing import JobLister
from services.gateway.media import check_json
from services.gateway.queues import Queues
from services.gateway.rates import Rates
from services.gateway.rotation import Rotation
from services.gateway.routes import (
    batches,
    control,
    deliveries,
    descriptions,
    erasure,
    events,
    inference,
    jobs,
    listing,
    models,
    operations,
    outputs,
    webhook_actions,
    webhooks,
)
from services.gateway.routes.parameters import Strict
from services.gateway.secret_rotation import SecretRotation
from services.gateway.settings import GatewaySettings
from services.gateway.store import Store
from services.gateway.story import Story
from services.gateway.submit import Submitter
from services.gateway.watch import Watch
from services.gateway.watch_store import WatchStore
from services.gateway.webhook_store import WebhookStore
from services.gateway.workers import LARGE, Workers

STARTUP_SECONDS = 30.0  # for the database to answer
OUTBOX_SECONDS = 5.0  # for messages on their way to the broker when the gateway stops
RINGS_PREFETCH = 100

log = Log("gateway")


class ApiRequest(Request[Any, Any, Any]):
    """A request whose body is bounded in time and, together with all others, in memory."""

    async def body(self) -> bytes:
        check_json(self.headers)
        self.app.state.budget.take(self.scope, self.headers.get("content-length"))
        return await in_time(self, super().body())

    async def json(self) -> Any:
        """The body, straight as the type that the handler takes; Litestar's own way loses strictness and pointers."""
        field = self.route_handler.parsed_data_field
        assert field is not None, "Litestar asks only for a handler that takes a body"
        return errors.decode_body(await self.body(), field.annotation)


async def answer_options(request: Request[Any, Any, Any]) -> Response[None] | None:
    """Litestar's own answer forgets methods where several handlers share a path."""
    if request.method != HttpMethod.OPTIONS:
        return None
    path = request.scope["path_template"]
    routes = (each for each in request.app.routes if isinstance(each, HTTPRoute) and each.path_format == path)
    allowed = {str(method) for route in routes for method in route.methods}
    return Response(None, status_code=HTTPStatus.NO_CONTENT, headers={"Allow": errors.list_methods(allowed)})


def provide(value: object) -> Provide:
    """What handlers get under a name: always the same."""

    def get() -> Any:
        return value

    return Provide(get, sync_to_thread=False)


def build(
    settings: GatewaySettings,
    database: Database,
    publisher: Publisher,
    outbox: Outbox,
    watch: Watch,
    workers: Workers,
) -> Litestar:
    """The application around its open connections."""
    store = Store(database)
    catalogue = Catalogue(store)
    policy = Policy.parse(settings.allowed_networks, settings.allow_http)
    links = Links(settings.public_url.rstrip("/"), settings.trace_url)
    sealer = Sealer(settings.encryption_keys)
    limits = LimitStore(database)
    queues = Queues(limits, settings.max_queued, settings.max_queued_per_model)
    changes = Control(database, catalogue, outbox, Bell(publisher), links)
    repeats = Repeats(IdempotencyStore(database))
    submitter = Submitter(store, catalogue, outbox, policy, queues, repeats, workers)
    batch_store = BatchStore(database)
    provided: dict[str, object] = {
        "database": database,
        "store": store,
        "webhooks": WebhookStore(database),
        "deliveries": DeliveryStore(database),
        "lister": JobLister(database),
        "eraser": Eraser(database),
        "rotation": SecretRotation(database, sealer),
        "grants": Grants(settings.encryption_keys),
        "catalogue": catalogue,
        "depths": Depths(store),
        "policy": policy,
        "sealer": sealer,
        "links": links,
        "control": changes,
        "batch_store": batch_store,
        "batches": BatchSubmitter(batch_store, submitter, outbox),
        "story": Story(watch.store, watch, settings.heartbeat),
        "inference": Inference(submitter, changes, store, watch, settings.infer_wait),
    }
    api = Router(
        "/v1",
        route_handlers=[
            *(
                jobs.make_router(settings.max_body),
                listing.router,
                events.router,
                control.router,
                erasure.router,
                models.router,
            ),
            batches.make_router(settings.max_batch),
            *(webhooks.router, webhook_actions.router, deliveries.router),
        ],
        request_max_body_size=min(settings.max_body, LARGE),  # of calls that read it at once
        middleware=[DefineMiddleware(Strict)],
    )
    protocol = Router(
        errors.PROTOCOL,
        route_handlers=[inference.router, descriptions.router],
        middleware=[DefineMiddleware(Authentication)],
    )
    checks = {"database": database.check, "broker": publisher.link.check}
    budget = Budget(settings.max_bodies, settings.max_body)
    return Litestar(
        route_handlers=[api, protocol, outputs.router, events.socket_router, operations.router, descriptions.public],
        request_class=ApiRequest,
        before_request=answer_options,
        dependencies={name: provide(value) for name, value in provided.items()},
        exception_handlers=errors.HANDLERS,
        before_send=[rates.add_headers],
        request_max_body_size=settings.max_body,
        logging_config=None,  # ours is set already
        state=State(
            {
                "desk": jobs.Desk(submitter, store, watch, links),
                "keyring": Keyring(store),
                "rates": Rates(limits, settings.rate_limit),
                "checks": checks,
                "max_body": settings.max_body,
                "budget": budget,
                "delivery_timeout": settings.delivery_timeout,
                "rotation": Rotation(),
                "patience": Patience(),
            }
        ),
        openapi_config=OpenAPIConfig(
            title="Charonia",
            version="1",
            description="Asynchronous inference for NVIDIA Triton.",
            openapi_router=docs.make_router(),
            render_plugins=[docs.DocsPlugin()],
            components=Components(security_schemes={"key": SecurityScheme(type="http", scheme="bearer")}),
            security=[{"key": []}],
        ),
    )


async def run(settings: GatewaySettings, stopping: asyncio.Event) -> None:
    """Serves until `stopping` is set, then drains."""
    database = await Database.connect(
        settings.database_url, size=settings.database_pool, application="charonia-gateway"
    )
    publisher = Publisher(settings.amqp_url, "charonia-gateway")
    outbox = Outbox(database, publisher)
    process = f"gateway-{name_process()}"
    consumer = Consumer(settings.amqp_url, process)
    watch = Watch(WatchStore(database), Attention(publisher), lambda: publisher.link.is_up and consumer.link.is_up)
    rings = f"changes.{process}"
    await consumer.subscribe(
        Subscription(
            rings, RINGS_PREFETCH, partial(topology.declare_own, queue=rings, exchange=topology.CHANGES), watch.handle
        )
    )
    workers = Workers()
    app = build(settings, database, publisher, outbox, watch, workers)
    await database.wait(STARTUP_SECONDS)
    await bootstrap(settings, Store(database))
    rotation: Rotation = app.state.rotation
    guarded = rotation.guard(observe.observe(app.state.budget.guard(front(app))))
    leaving = min(settings.drain, settings.shutdown_grace)
    options = {
        "timeout_graceful_shutdown": round(settings.shutdown_grace - leaving),
        "timeout_keep_alive": 75,
        **protocols(settings.send_timeout),
    }
    server = health.Server(health.configuration(guarded, settings.host, settings.port, **options))
    serving = asyncio.create_task(server.serve())

    async def serve() -> None:
        await asyncio.shield(serving)

    async def drain() -> None:
        rotation.leave()
        log.info("gateway.leaving", seconds=leaving)
        await asyncio.sleep(leaving)
        watch.close()
        app.state.patience.end()
        server.should_exit = True
        await asyncio.wait([serving], timeout=settings.shutdown_grace + 5)
        await outbox.drain(OUTBOX_SECONDS)

    log.info("gateway.started", host=settings.host, port=settings.port)
    loops = {
        "http": serve(),
        "publisher": publisher.link.run(),
        "consumer": consumer.link.run(),
        "relay": outbox.relay(),
        "watch": watch.poll(),
        "lag": measure_lag(),
        "keys": watch.watch_keys(),
    }
    try:
        await keep_running(loops, stopping, drain)
    finally:
        workers.close()
        await database.close()
    log.info("gateway.stopped")


async def bootstrap(settings: GatewaySettings, store: Store) -> None:
    """Makes the first key, where one is set."""
    if settings.bootstrap_key:
        tenant = await ensure_tenant(store, Sealer(settings.encryption_keys), "default")
        await store.add_key(ids.new(), tenant, "bootstrap", hash_key(settings.bootstrap_key))
