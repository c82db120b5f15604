"""The notifier's composition root."""

import asyncio
from functools import partial

from common.http import health
from common.lifecycle import run_until_stopped
from common.postgres.database import Database
from common.postgres.leadership import Leadership, LeaseStore, Loops
from common.rabbitmq import topology
from common.rabbitmq.consumer import Consumer
from common.rabbitmq.publisher import Publisher
from common.rabbitmq.subscription import Subscription
from common.rabbitmq.wake_ups import WakeUpPublisher
from common.security.encryption import Encryptor
from common.security.ssrf import AddressPolicy
from common.telemetry.logs import Log
from common.telemetry.metrics import measure_loop_lag
from services.notifier.claims.store import ClaimStore
from services.notifier.cleanup.sweep import run_cleanup
from services.notifier.deliveries.sender import Sender
from services.notifier.deliveries.worker import DeliveryWorker
from services.notifier.delivery_attempts.recorder import AttemptRecorder
from services.notifier.delivery_attempts.store import AttemptStore
from services.notifier.ended_subscriptions.sweep import EndedSubscriptions
from services.notifier.endpoints.due_endpoints import DueEndpoints
from services.notifier.new_deliveries.store import NewDeliveryStore
from services.notifier.new_deliveries.taker import NewDeliveries
from services.notifier.overdue_deliveries.sweep import OverdueDeliveries
from services.notifier.recovery.sweep import Recovery
from services.notifier.settings import NotifierSettings

PREFETCH = 200  # events: one batch
HANDLERS_SECONDS = 2.0  # at shutdown, for running handlers
CONNECTIONS = 6  # of each of two pools: each loop and batcher uses one at a time
WAKE_UP_SECONDS = 2.0  # at shutdown, for messages being published

ROLE = "notifier"  # of the one that sweeps

log = Log("notifier")


async def connect(settings: NotifierSettings, *, relaxed: bool) -> Database:
    return await Database.connect(
        settings.database_url,
        size=CONNECTIONS,
        application="charonia-notifier",
        relaxed=relaxed,
    )


def open_sender(settings: NotifierSettings) -> Sender:
    return Sender.open(
        Encryptor(settings.encryption_keys),
        AddressPolicy.parse(settings.webhook_networks, settings.webhook_http),
        timeout=settings.delivery_timeout,
        concurrency=settings.delivery_concurrency,
        proxy=settings.egress_proxy,
    )


def build_worker(
    settings: NotifierSettings, database: Database, relaxed: Database, wake_ups: WakeUpPublisher, sender: Sender
) -> DeliveryWorker:
    due = DueEndpoints()
    recorder = AttemptRecorder(
        AttemptStore(database, relaxed),
        wake_ups,
        due,
        endpoint_concurrency=settings.endpoint_concurrency,
        disable_after=settings.disable_after,
    )
    return DeliveryWorker(
        ClaimStore(relaxed),
        sender,
        recorder,
        due,
        settings.delivery_schedule,
        timeout=settings.delivery_timeout,
        concurrency=settings.delivery_concurrency,
        endpoint_concurrency=settings.endpoint_concurrency,
    )


async def run(settings: NotifierSettings, stopping: asyncio.Event) -> None:
    """Serve until `stopping` is set, then drain."""
    schedule = settings.delivery_schedule
    database = await connect(settings, relaxed=False)
    relaxed = await connect(settings, relaxed=True)
    publisher = Publisher(settings.amqp_url, "notifier", settings.queue_type)
    consumer = Consumer(settings.amqp_url, "notifier", settings.queue_type)
    wake_ups = WakeUpPublisher(publisher)
    sender = open_sender(settings)
    worker = build_worker(settings, database, relaxed, wake_ups, sender)
    recovery = Recovery(database, worker.due.wake, rate=settings.recovery_rate)
    ended = EndedSubscriptions(relaxed, worker.due.wake, endpoint_concurrency=settings.endpoint_concurrency)
    overdue = OverdueDeliveries(database, wake_ups, schedule, endpoint_concurrency=settings.endpoint_concurrency)
    new_deliveries = NewDeliveries(NewDeliveryStore(relaxed), worker, schedule[0])
    declare = partial(topology.declare_exchanges, queue_type=settings.queue_type)
    await consumer.subscribe(Subscription(topology.NOTIFIER_QUEUE, PREFETCH, declare, new_deliveries.handle))
    checks = {"database": database.check, "broker": consumer.connection.check}
    nodes = {"database": lambda: database.node, "broker": lambda: consumer.connection.node}
    server = health.serve(settings.host, settings.port, checks, nodes)

    async def drain() -> None:
        await consumer.stop(HANDLERS_SECONDS)
        await worker.stop(settings.shutdown_grace)
        await wake_ups.drain(WAKE_UP_SECONDS)

    def begin() -> Loops:
        """Return what one notifier does for all. Each sends the deliveries that it claims."""
        return {
            "new_deliveries": new_deliveries.sweep,
            "recovery": recovery.run,
            "overdue_deliveries": overdue.run,
            "ended_subscriptions": ended.run,
            "cleanup": partial(run_cleanup, database, settings.retention),
        }

    log.info("notifier.started", schedule=len(schedule), timeout=settings.delivery_timeout)
    loops = {
        "publisher": publisher.connection.run(),
        "consumer": consumer.connection.run(),
        "wide_events": new_deliveries.schedule_wide(),
        "delivery_worker": worker.run(),
        "sweeps": Leadership(LeaseStore(database, ROLE), begin).run(),
        "lag": measure_loop_lag(),
        "health": server.serve(),
    }
    try:
        await run_until_stopped(loops, stopping, drain)
    finally:
        await sender.close()
        await relaxed.close()
        await database.close()
    log.info("notifier.stopped")
