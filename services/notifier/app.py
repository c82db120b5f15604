"""The notifier, put together."""

import asyncio

from common import census, health, topology
from common.addresses import Policy
from common.broker import Consumer, Publisher, Subscription
from common.database import KEPT_PLANS, Database
from common.lifecycle import keep_running
from common.logs import Log
from common.metrics import measure_lag
from common.outbox import Outbox
from common.sealing import Sealer
from services.notifier.clock import watch_clock
from services.notifier.fanout import Fanout
from services.notifier.outbound import Outbound
from services.notifier.record import Recorder
from services.notifier.recover import Recovery
from services.notifier.sender import Sender
from services.notifier.settings import NotifierSettings
from services.notifier.store import Store
from services.notifier.tidy import tidy

PREFETCH = 200  # events: one batch of the fan-out
HANDLERS_SECONDS = 2.0  # for events being fanned out when the notifier stops
OUTBOX_SECONDS = 2.0  # for messages on their way to the broker then

log = Log("notifier")


async def run(settings: NotifierSettings, stopping: asyncio.Event) -> None:
    """Serves until `stopping` is set, then drains."""
    sealer = Sealer(settings.encryption_keys)
    policy = Policy.parse(settings.allowed_networks, settings.allow_http)
    plan, timeout, concurrency = settings.delivery_schedule, settings.delivery_timeout, settings.delivery_concurrency
    database = await Database.connect(settings.database_url, application="charonia-notifier", planning=KEPT_PLANS)
    publisher = Publisher(settings.amqp_url, "notifier")
    consumer = Consumer(settings.amqp_url, "notifier")
    outbox = Outbox(database, publisher)
    store = Store(database)
    sender = Sender.open(sealer, policy, timeout=timeout, concurrency=concurrency, proxy=settings.egress_proxy)
    each = settings.endpoint_concurrency
    woken = asyncio.Event()
    recorder = Recorder(store, outbox, woken.set, concurrency=each, patience=settings.disable_after)
    outbound = Outbound(store, sender, recorder, woken, plan, timeout=timeout, concurrency=concurrency, each=each)
    recovery = Recovery(database, outbox, outbound.wake, rate=settings.recovery_rate, plan=plan)
    fanout = Fanout(store, outbound, plan[0])
    await consumer.subscribe(Subscription(topology.NOTIFIER_QUEUE, PREFETCH, topology.declare_exchanges, fanout.handle))
    checks = {"database": database.check, "broker": consumer.link.check}
    server = health.serve(settings.host, settings.port, checks)

    async def drain() -> None:
        await consumer.stop(HANDLERS_SECONDS)
        await outbound.stop(settings.shutdown_grace)
        await outbox.drain(OUTBOX_SECONDS)

    log.info("notifier.started", schedule=len(plan), timeout=timeout)
    loops = {
        "publisher": publisher.link.run(),
        "consumer": consumer.link.run(),
        "relay": outbox.relay(),
        "fanout": fanout.sweep(),
        "outbound": outbound.run(),
        "recovery": recovery.run(),
        "clock": watch_clock(database, outbound.wake, lease=outbound.lease),
        "tidy": tidy(database, settings.retention),
        "census": census.watch(database),
        "lag": measure_lag(),
        "health": server.serve(),
    }
    try:
        await keep_running(loops, stopping, drain)
    finally:
        await sender.close()
        await database.close()
    log.info("notifier.stopped")
