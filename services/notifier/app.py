"""The notifier's composition root."""

import asyncio

from common.http import health
from common.lifecycle import run_until_stopped
from common.outbox import Outbox
from common.postgres import database_metrics
from common.postgres.database import GENERIC_PLANS, Database
from common.rabbitmq import topology
from common.rabbitmq.consumer import Consumer, Subscription
from common.rabbitmq.publisher import Publisher
from common.security.encryption import Encryptor
from common.security.ssrf import AddressPolicy
from common.telemetry.logs import Log
from common.telemetry.metrics import measure_loop_lag
from services.notifier.attempt_recorder import AttemptRecorder
from services.notifier.cleanup import run_cleanup
from services.notifier.clock_correction import watch_clock
from services.notifier.delivery_worker import DeliveryWorker
from services.notifier.endpoint_mutex import EndpointMutex
from services.notifier.fanout import Fanout
from services.notifier.recovery import Recovery
from services.notifier.sender import Sender
from services.notifier.settings import NotifierSettings
from services.notifier.store.attempts import AttemptStore
from services.notifier.store.claims import ClaimStore
from services.notifier.store.fanout import FanoutStore

PREFETCH = 200  # events: one fan-out batch
HANDLERS_SECONDS = 2.0  # at shutdown, for running fan-outs
OUTBOX_SECONDS = 2.0  # at shutdown, for messages being published

log = Log("notifier")


def open_sender(settings: NotifierSettings) -> Sender:
    return Sender.open(
        Encryptor(settings.encryption_keys),
        AddressPolicy.parse(settings.allowed_networks, settings.allow_http),
        timeout=settings.delivery_timeout,
        concurrency=settings.delivery_concurrency,
        proxy=settings.egress_proxy,
    )


def build_worker(
    settings: NotifierSettings, database: Database, mutex: EndpointMutex, outbox: Outbox, sender: Sender
) -> DeliveryWorker:
    wake_up = asyncio.Event()
    recorder = AttemptRecorder(
        AttemptStore(database, mutex),
        outbox,
        wake_up.set,
        endpoint_concurrency=settings.endpoint_concurrency,
        disable_after=settings.disable_after,
    )
    return DeliveryWorker(
        ClaimStore(database, mutex),
        sender,
        recorder,
        wake_up,
        settings.delivery_schedule,
        timeout=settings.delivery_timeout,
        concurrency=settings.delivery_concurrency,
        endpoint_concurrency=settings.endpoint_concurrency,
    )


async def run(settings: NotifierSettings, stopping: asyncio.Event) -> None:
    """Serve until `stopping` is set, then drain."""
    schedule = settings.delivery_schedule
    database = await Database.connect(settings.database_url, application="charonia-notifier", planning=GENERIC_PLANS)
    publisher = Publisher(settings.amqp_url, "notifier")
    consumer = Consumer(settings.amqp_url, "notifier")
    outbox = Outbox(database, publisher)
    mutex, sender = EndpointMutex(), open_sender(settings)
    worker = build_worker(settings, database, mutex, outbox, sender)
    recovery = Recovery(database, outbox, worker.wake, rate=settings.recovery_rate, schedule=schedule)
    fanout = Fanout(FanoutStore(database, mutex), worker, schedule[0])
    await consumer.subscribe(Subscription(topology.NOTIFIER_QUEUE, PREFETCH, topology.declare_exchanges, fanout.handle))
    checks = {"database": database.check, "broker": consumer.connection.check}
    server = health.serve(settings.host, settings.port, checks)

    async def drain() -> None:
        await consumer.stop(HANDLERS_SECONDS)
        await worker.stop(settings.shutdown_grace)
        await outbox.drain(OUTBOX_SECONDS)

    log.info("notifier.started", schedule=len(schedule), timeout=settings.delivery_timeout)
    loops = {
        "publisher": publisher.connection.run(),
        "consumer": consumer.connection.run(),
        "relay": outbox.relay(),
        "fanout": fanout.sweep(),
        "delivery_worker": worker.run(),
        "recovery": recovery.run(),
        "clock": watch_clock(database, worker.wake, lease=worker.lease),
        "cleanup": run_cleanup(database, settings.retention),
        "database_metrics": database_metrics.collect_metrics(database),
        "lag": measure_loop_lag(),
        "health": server.serve(),
    }
    try:
        await run_until_stopped(loops, stopping, drain)
    finally:
        await sender.close()
        await database.close()
    log.info("notifier.stopped")
