"""Serving: the gateway's connections, its loops, and its shutdown."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from prometheus_client import make_asgi_app

from common import ids
from common.http import health
from common.lifecycle import run_until_stopped
from common.locations.buckets import Buckets
from common.object_store.store import ObjectStore
from common.postgres.database import Database
from common.process_name import name_process
from common.rabbitmq import topology
from common.rabbitmq.consumer import Consumer
from common.rabbitmq.messages import Message
from common.rabbitmq.publisher import Publisher
from common.rabbitmq.subscription import Subscription
from common.rabbitmq.wake_ups import WakeUpPublisher
from common.security.encryption import Encryptor
from common.telemetry.logs import Log
from common.telemetry.metrics import measure_loop_lag
from services.gateway.app.application import Gateway, build
from services.gateway.app.composition import Connections
from services.gateway.auth.authentication import KeyCache, ensure_tenant, hash_key
from services.gateway.auth.store import KeyStore
from services.gateway.events.changes import handle_change
from services.gateway.events.feed.feed import EventFeed
from services.gateway.events.feed.store import FeedStore
from services.gateway.events.store import EventStore
from services.gateway.events.waiter_presence import WaiterPresence
from services.gateway.events.waiters import Waiters
from services.gateway.http.limits.write_timeout import make_protocols
from services.gateway.http.worker_processes import Workers
from services.gateway.open_inference import parse
from services.gateway.openai.chat import translation
from services.gateway.openai.templates import limits
from services.gateway.settings import GatewaySettings

STARTUP_SECONDS = 30.0  # for the database to answer, and to take the first key
WAKE_UP_SECONDS = 5.0  # for messages on their way to the broker when the gateway stops
SERVER_SECONDS = 5.0  # beyond the grace period, for uvicorn to stop
KEEP_ALIVE_SECONDS = 75
BUCKET_SECONDS = 5.0  # for each step of looking at an object of a tenant's bucket: the client waits
CHANGES_PREFETCH = 100

log = Log("gateway")


async def run(settings: GatewaySettings, stopping: asyncio.Event) -> None:
    """Serve until `stopping` is set, then drain."""
    database = await Database.connect(
        settings.database_url, size=settings.database_pool, application="charonia-gateway"
    )
    publisher = Publisher(settings.amqp_url, "charonia-gateway", settings.queue_type)
    process = f"gateway-{name_process()}"
    consumer = Consumer(settings.amqp_url, process, settings.queue_type)
    waiters = Waiters(
        EventStore(database),
        WaiterPresence(publisher),
        lambda: publisher.connection.is_up and consumer.connection.is_up,
    )
    keys = KeyCache(KeyStore(database), development=settings.development, public_url=settings.public_url)
    feed = EventFeed(FeedStore(database), waiters, settings.heartbeat)
    await subscribe_to_changes(consumer, process, partial(handle_change, waiters, keys, feed.note_change))
    workers = Workers(preload=[parse.__name__])
    template_workers = Workers(1, limits.POOL_SECONDS, preload=[translation.__name__])
    objects = ObjectStore(settings.store_url, public_endpoint=settings.store_public_endpoint)
    buckets, wake_ups = Buckets(BUCKET_SECONDS), WakeUpPublisher(publisher)
    connections = Connections(
        database, publisher, wake_ups, waiters, feed, keys, workers, template_workers, objects, buckets
    )
    gateway = build(settings, connections)
    await database.retry(STARTUP_SECONDS, partial(prepare_database, settings, database))
    server = make_server(settings, gateway)
    serving = asyncio.create_task(server.serve())

    async def serve() -> None:
        await asyncio.shield(serving)

    log.info("gateway.started", host=settings.host, port=settings.port)
    loops = {
        "http": serve(),
        "publisher": publisher.connection.run(),
        "consumer": consumer.connection.run(),
        "waiters": waiters.poll(),
        "feed": feed.watch(),
        "keys": waiters.poll_keys(),
        "lag": measure_loop_lag(),
        "leadership": gateway.leadership.run(),
    }
    if settings.metrics_port:
        config = health.server_config(make_asgi_app(), settings.host, settings.metrics_port)
        loops["metrics"] = health.Server(config).serve()
    try:
        await run_until_stopped(loops, stopping, partial(stop, settings, gateway, connections, server, serving))
    finally:
        workers.close()
        template_workers.close()
        objects.close()
        buckets.close()
        await database.close()
    log.info("gateway.stopped")


async def stop(
    settings: GatewaySettings,
    gateway: Gateway,
    connections: Connections,
    server: health.Server,
    serving: "asyncio.Task[Any]",
) -> None:
    """Drain first, so that load balancers notice; then answer everybody who waits, and stop the server."""
    gateway.drain.start()
    log.info("gateway.draining", seconds=drain_seconds(settings))
    await asyncio.sleep(drain_seconds(settings))
    connections.waiters.close()
    gateway.deadlines.close()
    server.should_exit = True
    await asyncio.wait([serving], timeout=settings.shutdown_grace + SERVER_SECONDS)
    await connections.wake_ups.drain(WAKE_UP_SECONDS)


def drain_seconds(settings: GatewaySettings) -> float:
    return min(settings.shutdown_delay, settings.shutdown_grace)


def make_server(settings: GatewaySettings, gateway: Gateway) -> health.Server:
    options = {
        "timeout_graceful_shutdown": round(settings.shutdown_grace - drain_seconds(settings)),
        "timeout_keep_alive": KEEP_ALIVE_SECONDS,
        **make_protocols(settings.send_timeout),
    }
    return health.Server(health.server_config(gateway.asgi, settings.host, settings.port, **options))


async def subscribe_to_changes(
    consumer: Consumer, process: str, handle: Callable[[Message, str | None], Awaitable[None]]
) -> None:
    """Handle what the broker announces to every gateway."""
    queue = f"changes.{process}"
    declare = partial(topology.declare_exclusive_queue, queue=queue, exchange=topology.CHANGES_EXCHANGE)
    await consumer.subscribe(Subscription(queue, CHANGES_PREFETCH, declare, handle))


async def prepare_database(settings: GatewaySettings, database: Database) -> None:
    """Add the first key, if one is set. Raise DatabaseUnavailable if the server does not answer, or is a standby."""
    await database.fetch("SELECT 1")
    if settings.bootstrap_key:
        store = KeyStore(database)
        tenant = await ensure_tenant(store, Encryptor(settings.encryption_keys), "default", actor="gateway")
        await store.add_key(ids.new(), tenant, "bootstrap", hash_key(settings.bootstrap_key), actor="gateway")
